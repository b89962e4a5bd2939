//! What was said before this agent came: read whole, shown in short.
//!
//! A joiner wants the context that the session was opened with and the last messages, and counts
//! as caught up with all of it. So everything unread is read, page by page; only what will be
//! shown is kept.

use std::collections::VecDeque;

use parler_connector::Read;
use parler_connector::render::proven;
use parler_connector::render::{self, DIGEST_MESSAGES, Me, Voice};
use parler_connector::safe::model::{BODY_CHARS, Frame};
use parler_protocol::{HandoffRef, StoredMessage, TypedPart};

use crate::error::ToolError;
use crate::inbox::Batch;
use crate::state::Tools;

/// Messages of one page.
const PAGE: u32 = 200;
/// Pages of one backlog; what is beyond (10 000 messages) stays unread.
const MAX_PAGES: usize = 50;
/// Messages that are kept for a full showing. More of it is read with `since`.
const KEPT: usize = 200;
/// Proven handoffs that are kept beside those, so that the banner can lead.
const KEPT_PROVEN: usize = 20;
/// Handoffs that nobody proved to have written; they push out none of the proven.
const KEPT_DOUBTFUL: usize = 5;

/// A backlog that was read and not yet shown.
pub(crate) struct Backlog {
    batch: Batch,
    seed: Option<StoredMessage>,
    kept: VecDeque<StoredMessage>,
    turns: Turns,
    /// Messages that were read and are not kept, the seed included.
    dropped: usize,
    first: Option<i64>,
}

/// The handoffs for this agent in a backlog.
#[derive(Default)]
struct Turns {
    proven: VecDeque<StoredMessage>,
    doubtful: VecDeque<StoredMessage>,
}

impl Turns {
    /// Keeps a message when it hands this agent a turn, also as one of anyone.
    fn keep(&mut self, message: &StoredMessage, me: &Me<'_>) {
        let handoff = HandoffRef::find(&message.parts);
        if message.from.id == me.id || !handoff.is_some_and(|handoff| me.is_meant(&handoff)) {
            return;
        }
        if !proven(message, me.id) {
            push(&mut self.doubtful, message.clone(), KEPT_DOUBTFUL);
            return;
        }
        self.proven.push_back(message.clone());
        if self.proven.len() > KEPT_PROVEN {
            self.drop_of_the_loudest();
        }
    }

    /// Lets go the oldest by whoever has most: nobody pushes out what others wrote.
    fn drop_of_the_loudest(&mut self) {
        let share = |id: &str| self.proven.iter().filter(|m| m.from.id == id).count();
        let most = self.proven.iter().map(|m| share(&m.from.id)).max();
        let mut authors = self.proven.iter();
        let oldest = authors.position(|m| Some(share(&m.from.id)) == most);
        oldest.and_then(|at| self.proven.remove(at));
    }

    /// Those before that place, in the order of the log.
    fn before(&self, seq: i64) -> Vec<StoredMessage> {
        let kept = self.doubtful.iter().chain(&self.proven);
        let mut all: Vec<_> = kept.filter(|m| m.seq < seq).cloned().collect();
        all.sort_by_key(|message| message.seq);
        all
    }
}

/// A backlog as text.
pub(crate) struct Shown {
    pub(crate) banner: Option<String>,
    pub(crate) text: String,
}

/// Reads everything that is unread in a room.
///
/// # Errors
/// The hub's; nothing counts as read then.
pub(crate) async fn read(tools: &Tools, room: &str) -> Result<Backlog, ToolError> {
    let client = tools.agent.client().await?;
    let mut batch = tools.inbox.unread(&client, room, PAGE).await?;
    let first_page = std::mem::take(&mut batch.pulled.messages);
    let mut backlog = Backlog {
        first: first_page.first().map(|message| message.seq),
        batch,
        seed: None,
        kept: VecDeque::new(),
        turns: Turns::default(),
        dropped: 0,
    };
    let mut page = first_page;
    for _ in 0..MAX_PAGES {
        let Some(last) = page.last().map(|message| message.seq) else {
            break;
        };
        backlog.batch.extend_to(last);
        page.into_iter()
            .for_each(|message| backlog.keep(tools, message));
        let next = Read::Since {
            seq: last,
            limit: PAGE,
        };
        page = client.pull(room, next).await?.messages;
    }
    Ok(backlog)
}

impl Backlog {
    fn keep(&mut self, tools: &Tools, message: StoredMessage) {
        tools.as_me(|me| self.turns.keep(&message, me));
        if self.seed.is_none() && render::gives_context(&message) {
            self.seed = Some(message.clone());
        }
        self.dropped += push(&mut self.kept, message, KEPT);
    }

    /// As text: all of it when it is short or `full`, else the context and the last messages.
    pub(crate) async fn render(&self, tools: &Tools, full: bool) -> Shown {
        let frame = Frame::new();
        let voice = Voice::Model {
            frame: &frame,
            body_chars: (!tools.verbose).then_some(BODY_CHARS),
        };
        let last = if full { KEPT } else { DIGEST_MESSAGES };
        let cut = if self.kept.len() + self.dropped <= DIGEST_MESSAGES {
            0
        } else {
            self.kept.len().saturating_sub(last)
        };
        let shown: Vec<_> = self.kept.iter().skip(cut).cloned().collect();
        let Some(oldest) = shown.first() else {
            return Shown {
                banner: tools.lead(&frame).await.and_then(|lead| lead.text),
                text: "(nothing new was said)".to_owned(),
            };
        };
        let seed = self.seed.iter().filter(|seed| seed.seq < oldest.seq);
        let mut lines = vec![frame.notice()];
        lines.extend(seed.clone().map(|seed| render::message(seed, &voice)));
        let omitted = self.dropped + cut - seed.count();
        if omitted > 0 {
            lines.push(format!(
                "({omitted} earlier omitted; read them with parler_recv {{\"since\": {}}})",
                self.first.unwrap_or(1) - 1
            ));
        }
        lines.extend(shown.iter().map(|message| render::message(message, &voice)));
        Shown {
            banner: match tools.lead(&frame).await {
                Some(lead) => lead.text,
                None => self.banner(tools, &shown, &voice).await,
            },
            text: lines.join("\n"),
        }
    }

    async fn banner(
        &self,
        tools: &Tools,
        shown: &[StoredMessage],
        voice: &Voice<'_>,
    ) -> Option<String> {
        let oldest = shown.first().map_or(0, |message| message.seq);
        let mut all = self.turns.before(oldest);
        all.extend_from_slice(shown);
        tools.banner(&all, voice).await
    }

    /// What counts as read once it was shown.
    pub(crate) fn into_batch(self) -> Batch {
        self.batch
    }
}

/// Keeps the newest `limit`; says how many went.
fn push(kept: &mut VecDeque<StoredMessage>, message: StoredMessage, limit: usize) -> usize {
    kept.push_back(message);
    let gone = kept.len().saturating_sub(limit);
    kept.drain(..gone);
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{EndpointRef, Target};
    use parler_testkit::keys;

    const ME: Me<'_> = Me {
        id: "UME",
        name: "webdev",
        role: None,
    };

    fn handoff(seq: i64, author: u8, to: Option<&str>, signed: bool) -> StoredMessage {
        let keys = keys(author);
        let handoff = HandoffRef {
            next: "x".into(),
            summary: None,
            to: to.map(Into::into),
            bundle: None,
        };
        let room = "auth".to_owned();
        let draft = parler_identity::Draft {
            target: &Target::Room { room: room.clone() },
            parts: vec![handoff.to_part()],
            reply_to: None,
            ts: 1,
            uid: seq.to_string(),
            hop: None,
        };
        let mut parts = parler_identity::sign_message(&keys, draft);
        if !signed {
            parts.truncate(1);
        }
        StoredMessage {
            seq,
            id: format!("id-{seq}"),
            room,
            from: EndpointRef {
                id: keys.id().as_str().into(),
                name: "planner".into(),
                role: None,
            },
            parts,
            mentions: None,
            reply_to: None,
            ts: 1,
        }
    }

    #[test]
    fn a_genuine_turn_is_pushed_out_by_nobody_else() {
        for (to, signed) in [
            (Some("webdev"), false),
            (Some("webdev"), true),
            (None, true),
            (Some("somebody else"), true),
        ] {
            let mut turns = Turns::default();
            turns.keep(&handoff(1, 1, None, true), &ME);
            for seq in 2..60 {
                turns.keep(&handoff(seq, 2, to, signed), &ME);
            }
            let kept = turns.before(i64::MAX);
            assert_eq!(kept.first().map(|m| m.seq), Some(1), "{to:?} {signed}");
            assert!(kept.len() <= KEPT_PROVEN + KEPT_DOUBTFUL);
            assert!(kept.is_sorted_by_key(|m| m.seq));
            assert!(turns.before(1).is_empty());
        }
    }
}
