//! What the hub's ledger puts at the head of an answer: the turns that this agent may take or
//! holds, and what became of those that it offered.
//!
//! A turn that names this agent is taken when the model is shown it; one to anyone is offered with
//! the call that takes it. What is shown comes from the message, not from the hub's row. Only a
//! message that its author signed for this room, and that is no old one offered again, is taken
//! without the model asking. On a hub without a ledger none of this happens.

use std::collections::HashSet;

use parler_connector::render::{self, Me, Voice};
use parler_connector::safe::model::{BODY_CHARS, Frame};
use parler_connector::{Read, safe};
use parler_protocol::turn::{TurnFilter, TurnsQuery};
use parler_protocol::{HandoffRef, StoredMessage, Turn, TypedPart};

use crate::error::ToolError;
use crate::holding::Taken;
use crate::state::Tools;
use crate::text;
use crate::turns::{Held, end_key, held, name, offered_line, stall_key, supersedes, take_key};

/// Turns that one look asks for: what an agent has to know of fits many times over.
pub(crate) const LOOK: u32 = 100;
/// Turns that lead one answer; the rest is counted.
const MAX_LED: usize = 5;
/// An end that is longer ago is no news.
const NEWS_MS: i64 = 24 * 60 * 60 * 1000;

/// What the ledger puts at the head of an answer.
#[derive(Default)]
pub(crate) struct Lead {
    /// Its text.
    pub(crate) text: Option<String>,
    /// Whether there is something in it that this agent was not told of before.
    pub(crate) news: bool,
}

impl Tools {
    /// What leads an answer by the ledger; turns that name this agent are taken now. `None`: there
    /// is no ledger, or it could not be asked.
    pub(crate) async fn lead(&self, frame: &Frame) -> Option<Lead> {
        let turns = match self.turns_to_know().await {
            Ok(turns) => turns?,
            Err(error) => {
                tracing::debug!(%error, "the ledger cannot be asked");
                return None;
            }
        };
        let me = self.agent.id();
        let mut lead = Lead::default();
        let mut blocks = Vec::new();
        let mut more = 0;
        for (at, turn) in turns.iter().enumerate() {
            if turn.state.terminal() || !self.may_be_mine(turn) {
                continue;
            }
            if blocks.len() >= MAX_LED {
                more += 1;
                continue;
            }
            let superseded = turns[..at].iter().any(|later| supersedes(later, turn));
            let Some(block) = self.one(turn, superseded, &me, frame).await else {
                continue;
            };
            lead.news |= block.news;
            blocks.push(block.text);
        }
        if more > 0 {
            blocks.push(format!(
                "{} beside: parler_turn {{\"action\": \"list\"}}.",
                text::count(more, "turn")
            ));
        }
        let mut ends = 0;
        for turn in turns.iter().filter(|turn| turn.from.id == me) {
            let Some(line) = offered_line(turn, frame) else {
                continue;
            };
            if turn.state.terminal() {
                if ends < MAX_LED && is_news(turn) && self.tells_end(&turn.message).await {
                    ends += 1;
                    lead.news = true;
                    blocks.push(line);
                }
            } else if self.turns.tell_once(stall_key(turn)) {
                blocks.push(line);
            }
        }
        lead.text = (!blocks.is_empty()).then(|| blocks.join("\n\n"));
        Some(lead)
    }

    /// The newest turns of this agent's rooms, and every active one that is for it, newest first.
    async fn turns_to_know(&self) -> Result<Option<Vec<Turn>>, ToolError> {
        let all = TurnsQuery {
            state: Some(TurnFilter::All),
            limit: Some(LOOK),
            ..TurnsQuery::default()
        };
        let Some(mut turns) = self.ledger_turns(all).await? else {
            return Ok(None);
        };
        if turns.len() >= LOOK as usize {
            // An open turn may be older than many that ended.
            let mine = TurnsQuery {
                state: Some(TurnFilter::Active),
                mine: Some(true),
                limit: Some(LOOK),
                ..TurnsQuery::default()
            };
            let mine = self.ledger_turns(mine).await?.unwrap_or_default();
            let known: HashSet<_> = turns.iter().map(|turn| turn.message.clone()).collect();
            let older = mine.into_iter().filter(|t| !known.contains(&t.message));
            turns.extend(older);
            turns.sort_by_key(|turn| std::cmp::Reverse(turn.seq));
        }
        Ok(Some(turns))
    }

    /// Whether the turn may be one of this agent; the hub decides when it is claimed.
    pub(crate) fn may_be_mine(&self, turn: &Turn) -> bool {
        let id = self.agent.id();
        if turn.from.id == id {
            return false;
        }
        match &turn.taken_by {
            Some(holder) => holder.id == id,
            None => self.as_me(|me| {
                me.is_meant(&HandoffRef {
                    next: String::new(),
                    summary: None,
                    to: turn.to.clone(),
                    bundle: None,
                })
            }),
        }
    }

    /// Whether the end of a turn of this agent was not told before; it is now.
    async fn tells_end(&self, message: &str) -> bool {
        self.turns.tell_once(end_key(message)) && self.ledger.tell_end(message).await
    }

    /// This agent knows how a turn ended that it offered.
    pub(crate) async fn knows_end(&self, message: &str) {
        self.tells_end(message).await;
    }

    /// One turn at the head of an answer.
    async fn one(&self, turn: &Turn, superseded: bool, me: &str, frame: &Frame) -> Option<Block> {
        let id = safe::token(&turn.message);
        // Another session of this agent may hold the room: then this one only shows.
        let acts = self.consumer.acts_in(&turn.room);
        if turn.taken_by.is_some() {
            if acts {
                let answered = turn.answered_at.is_some();
                let take = held(turn, turn.take);
                self.adopt(Held { answered, ..take }, turn).await;
            }
            return Some(Block {
                news: self.turns.tell_once(take_key(&turn.message, turn.take)),
                text: held_line(turn, &id),
            });
        }
        let message = self.offer_of(turn).await?;
        let proven = render::proven(&message, me)
            && self
                .old_ones(std::slice::from_ref(&message))
                .await
                .is_empty();
        let news = self.turns.tell_once(take_key(&turn.message, turn.take));
        if !proven && !news {
            // Anybody could make it lead for ever.
            return None;
        }
        let voice = Voice::Model {
            frame,
            body_chars: (!self.verbose).then_some(BODY_CHARS),
        };
        let mut lines = vec![self.as_me(|me| {
            render::banner_where(std::slice::from_ref(&message), me, &voice, |_| proven)
        })?];
        if self.session.active().as_deref() != Some(turn.room.as_str()) {
            lines.push(format!("room: {}", safe::token(&turn.room)));
        }
        if superseded {
            lines.push("(its author offered another turn to the same later)".to_owned());
        }
        let names_me = HandoffRef::find(&message.parts).is_some_and(|h| h.to.is_some());
        if proven && self.turns.auto && names_me && !superseded && acts && !self.gave_up(turn).await
        {
            match self.take(turn).await {
                Ok(Taken::Yes(take)) => {
                    self.turns.tell_once(take_key(&turn.message, take));
                    lines.push(format!(
                        "You have taken this turn (take {take}). When it is done: parler_turn \
                         {{\"action\": \"done\", \"id\": \"{id}\"}}; if you cannot: \
                         {{\"action\": \"release\", \"id\": \"{id}\"}}."
                    ));
                }
                // Somebody was faster, or it is not ours: nothing to lead with.
                Ok(Taken::No(_)) => return None,
                Err(error) => {
                    tracing::debug!(%error, "not taken");
                    lines.push(take_hint(&id));
                }
            }
        } else if proven {
            lines.push(take_hint(&id));
        }
        Some(Block {
            text: lines.join("\n"),
            news,
        })
    }

    async fn gave_up(&self, turn: &Turn) -> bool {
        self.ledger
            .gave_up(&turn.message, self.consumer.session())
            .await
    }

    /// The message of a turn, as its author signed it.
    pub(crate) async fn offer_of(&self, turn: &Turn) -> Option<StoredMessage> {
        let read = Read::Since {
            seq: turn.seq.checked_sub(1)?,
            limit: 1,
        };
        let room = &turn.room;
        let page = self
            .agent
            .call(|client| async move { client.pull(room, read).await })
            .await
            .ok()?;
        let message = page.messages.into_iter().next()?;
        (message.id == turn.message && message.room == turn.room).then_some(message)
    }

    /// Those of the messages that are old ones offered again, by their place.
    pub(crate) async fn old_ones(&self, messages: &[StoredMessage]) -> HashSet<i64> {
        let (id, name, role) = (self.agent.id(), self.agent.name(), self.agent.role());
        let me = Me {
            id: &id,
            name: &name,
            role: role.as_deref(),
        };
        self.ledger.replays(messages, &me).await
    }
}

/// One turn at the head of an answer.
struct Block {
    text: String,
    /// Not shown before.
    news: bool,
}

/// Whether a turn ended lately.
pub(crate) fn is_news(turn: &Turn) -> bool {
    turn.finished_at
        .is_none_or(|at| text::now_ms().saturating_sub(at) < NEWS_MS)
}

fn held_line(turn: &Turn, id: &str) -> String {
    let room = safe::token(&turn.room);
    format!(
        "🤝 YOU HOLD THE TURN of {} in room '{room}' (message {id}, seq {}). To read it again: \
         parler_recv {{\"room\": \"{room}\", \"since\": {}, \"limit\": 1}}. When it is done: \
         parler_turn {{\"action\": \"done\", \"id\": \"{id}\"}}.",
        name(&turn.from.name),
        turn.seq,
        turn.seq.saturating_sub(1)
    )
}

fn take_hint(id: &str) -> String {
    format!("To take it before you begin: parler_turn {{\"action\": \"take\", \"id\": \"{id}\"}}.")
}
