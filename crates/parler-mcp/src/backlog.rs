//! What was said before this agent came: read whole, shown in short.
//!
//! A joiner wants the context that the session was opened with and the last messages, and counts
//! as caught up with all of it. So everything unread is read, page by page; only what will be
//! shown is kept.

use std::collections::VecDeque;

use parler_connector::Read;
use parler_connector::render::{self, DIGEST_MESSAGES, Voice};
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
/// Handoffs that are kept beside those, so that the banner can lead.
const KEPT_HANDOFFS: usize = 5;

/// A backlog that was read and not yet shown.
pub(crate) struct Backlog {
    batch: Batch,
    seed: Option<StoredMessage>,
    kept: VecDeque<StoredMessage>,
    handoffs: VecDeque<StoredMessage>,
    /// Messages that were read and are not kept, the seed included.
    dropped: usize,
    first: Option<i64>,
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
        handoffs: VecDeque::new(),
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
        let handoff = HandoffRef::find(&message.parts);
        if handoff.is_some_and(|h| h.to.is_some() && tools.means_me(&h)) {
            push(&mut self.handoffs, message.clone(), KEPT_HANDOFFS);
        }
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
                banner: None,
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
            banner: self.banner(tools, &shown, &voice).await,
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
        let mut all: Vec<_> = self
            .handoffs
            .iter()
            .filter(|m| m.seq < oldest)
            .cloned()
            .collect();
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
