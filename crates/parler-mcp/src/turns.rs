//! The turns of this agent, as the hub's ledger has them: which it holds, which it may take, and
//! what became of those that it offered.
//!
//! A turn that names this agent is taken when the model is shown it; one to anyone is offered with
//! the call that takes it. Only a message that its author signed for this room, and that is no old
//! one offered again, is taken without the model asking. A hub without a ledger is one where none
//! of this happens, and the log alone leads.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parler_connector::render::{self, Me, Voice};
use parler_connector::safe::model::{BODY_CHARS, Frame, label};
use parler_connector::{Read, safe};
use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{Complete, HandoffRef, StoredMessage, TaskStatus, Turn, TurnState};
use tokio::time::{sleep, timeout};

use crate::error::ToolError;
use crate::state::Tools;
use crate::text;

/// Turns that one look asks for: what an agent has to know of fits many times over.
const LOOK: u32 = 100;
/// Turns that lead one answer; the rest is counted.
const MAX_LED: usize = 5;
/// Turns that this server renews. An agent works at one; the rest is what it took by mistake.
const MAX_HELD: usize = 32;
/// Lines that were told once: turn and reason.
const MAX_TOLD: usize = 512;
/// How often leases are renewed: a third of the hub's default of 300 s.
const RENEW_EVERY: Duration = Duration::from_secs(100);
/// A session that called none of our tools for so long holds nothing for ever.
const IDLE_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long the last word on held turns may take at the end.
const LAST_WORD: Duration = Duration::from_millis(500);
/// Characters of a peer's or the hub's words in a line of ours.
const LINE_CHARS: usize = 300;

/// A turn that this agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Stored name.
    pub(crate) room: String,
    /// Id of the message that offered it.
    pub(crate) message: String,
    /// Fencing token of this take.
    pub(crate) take: i64,
    /// Who offered it, as its line calls it.
    pub(crate) from: String,
    /// Something was said in its room since it was taken.
    pub(crate) answered: bool,
}

/// What this server knows of turns.
pub(crate) struct Turns {
    known: Mutex<Known>,
    /// A turn that names this agent is taken by itself.
    auto: bool,
}

#[derive(Default)]
struct Known {
    held: Vec<Held>,
    no_ledger: bool,
    /// What was told already, in the order of the telling.
    told: HashSet<String>,
    order: VecDeque<String>,
}

impl Turns {
    pub(crate) fn new(auto: bool) -> Self {
        Turns {
            known: Mutex::default(),
            auto,
        }
    }

    /// Every turn that this server took and that did not end.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.lock().held.clone()
    }

    /// The one turn held in a room; `None` when there is none, or more than one.
    pub(crate) fn only_in(&self, room: &str) -> Option<Held> {
        let known = self.lock();
        let mut here = known.held.iter().filter(|held| held.room == room);
        let first = here.next()?;
        here.next().is_none().then(|| first.clone())
    }

    /// Notes a take, in the place of an older one of the same turn.
    pub(crate) fn hold(&self, held: Held) {
        let mut known = self.lock();
        known.held.retain(|other| other.message != held.message);
        known.held.push(held);
        if known.held.len() > MAX_HELD {
            known.held.remove(0);
        }
    }

    /// The turn is over for this agent.
    pub(crate) fn forget(&self, message: &str) {
        self.lock().held.retain(|held| held.message != message);
    }

    /// Something was said in its room.
    pub(crate) fn answered(&self, message: &str) {
        for held in &mut self.lock().held {
            held.answered |= held.message == message;
        }
    }

    /// Whether that was not told before; it is now.
    fn tell_once(&self, key: String) -> bool {
        let mut known = self.lock();
        if !known.told.insert(key.clone()) {
            return false;
        }
        known.order.push_back(key);
        if known.order.len() > MAX_TOLD
            && let Some(oldest) = known.order.pop_front()
        {
            known.told.remove(&oldest);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the ledger puts at the head of an answer.
#[derive(Default)]
pub(crate) struct Lead {
    /// Its text.
    pub(crate) text: Option<String>,
    /// Whether there is a turn in it that this agent was not told of before.
    pub(crate) news: bool,
}

impl Tools {
    /// Asks the ledger; `None` where the hub has none.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn ledger_turns(
        &self,
        query: TurnsQuery,
    ) -> Result<Option<Vec<Turn>>, ToolError> {
        if self.turns.lock().no_ledger {
            return Ok(None);
        }
        let asked = self
            .agent
            .call(|client| {
                let query = query.clone();
                async move { client.turns(query).await }
            })
            .await;
        match asked {
            Ok(turns) => Ok(Some(turns.turns)),
            Err(error) if error.unsupported() => {
                self.turns.lock().no_ledger = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What leads an answer by the ledger: turns that this agent holds or may take (those that
    /// name it are taken now), then what became of those that it offered. `None`: there is no
    /// ledger, or it could not be asked.
    pub(crate) async fn lead(&self, frame: &Frame) -> Option<Lead> {
        let query = TurnsQuery {
            state: Some(TurnFilter::All),
            limit: Some(LOOK),
            ..TurnsQuery::default()
        };
        let turns = match self.ledger_turns(query).await {
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
            if turn.from.id == me || turn.state.terminal() || !self.may_be_mine(turn, &me) {
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
            lead.news |= self
                .turns
                .tell_once(format!("{} {}", turn.message, turn.take));
            blocks.push(block);
        }
        if more > 0 {
            blocks.push(format!(
                "{} beside: parler_turn {{\"action\": \"list\"}}.",
                text::count(more, "turn")
            ));
        }
        for turn in turns.iter().filter(|turn| turn.from.id == me) {
            let Some(line) = offered_line(turn, frame) else {
                continue;
            };
            if self.turns.tell_once(outcome_key(turn)) {
                lead.news |= turn.state.terminal();
                blocks.push(line);
            }
        }
        lead.text = (!blocks.is_empty()).then(|| blocks.join("\n\n"));
        Some(lead)
    }

    /// Whether the turn may be one of this agent; the hub decides when it is claimed.
    fn may_be_mine(&self, turn: &Turn, me: &str) -> bool {
        match &turn.taken_by {
            Some(holder) => holder.id == me,
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

    /// One turn at the head of an answer.
    async fn one(&self, turn: &Turn, superseded: bool, me: &str, frame: &Frame) -> Option<String> {
        let id = safe::token(&turn.message);
        if turn.taken_by.is_some() {
            self.turns.hold(Held {
                answered: turn.answered_at.is_some(),
                ..held(turn, turn.take)
            });
            return Some(format!(
                "🤝 YOU HOLD THE TURN of {} in room '{}' (message {id}, seq {}). When it is done: \
                 parler_turn {{\"action\": \"done\", \"id\": \"{id}\"}}.",
                name(&turn.from.name),
                safe::token(&turn.room),
                turn.seq
            ));
        }
        let message = self.offer_of(turn).await?;
        let proven = render::proven(&message, me)
            && self
                .old_ones(std::slice::from_ref(&message))
                .await
                .is_empty();
        let voice = Voice::Model {
            frame,
            body_chars: (!self.verbose).then_some(BODY_CHARS),
        };
        let mut lines = vec![self.as_me(|me| {
            render::banner_where(std::slice::from_ref(&message), me, &voice, |_| proven)
        })?];
        if superseded {
            lines.push("(its author offered another turn to the same later)".to_owned());
        }
        let names_me = turn.to.is_some();
        if !proven {
            return Some(lines.join("\n"));
        }
        if self.turns.auto && names_me && !superseded {
            match self.take(&turn.room, &turn.message, turn).await {
                Ok(Taken::Yes(take)) => lines.push(format!(
                    "You have taken this turn (take {take}). When it is done: parler_turn \
                     {{\"action\": \"done\", \"id\": \"{id}\"}}; if you cannot: \
                     {{\"action\": \"release\", \"id\": \"{id}\"}}."
                )),
                // Somebody was faster, or it is not ours: nothing to lead with.
                Ok(Taken::No(_)) => return None,
                Err(error) => {
                    tracing::debug!(%error, "not taken");
                    lines.push(take_hint(&id));
                }
            }
        } else {
            lines.push(take_hint(&id));
        }
        Some(lines.join("\n"))
    }

    /// The message of a turn, as its author signed it.
    pub(crate) async fn offer_of(&self, turn: &Turn) -> Option<StoredMessage> {
        let read = Read::Since {
            seq: turn.seq - 1,
            limit: 1,
        };
        let room = turn.room.clone();
        let page = self
            .agent
            .call(|client| {
                let room = room.clone();
                async move { client.pull(&room, read).await }
            })
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

    /// Takes a turn, and holds it from then on.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn take(
        &self,
        room: &str,
        message: &str,
        turn: &Turn,
    ) -> Result<Taken, ToolError> {
        let (room, message) = (room.to_owned(), message.to_owned());
        let claimed = self
            .agent
            .call(|client| {
                let (room, message) = (room.clone(), message.clone());
                async move { client.claim_turn(&room, &message, None).await }
            })
            .await?;
        if !claimed.claimed {
            return Ok(Taken::No(claimed.holder.map(|holder| holder.name)));
        }
        let take = claimed.take.unwrap_or(turn.take + 1);
        self.turns.hold(held(turn, take));
        Ok(Taken::Yes(take))
    }

    /// Gives a held turn back.
    pub(crate) async fn give_back(&self, held: &Held, note: &str) -> Result<bool, ToolError> {
        self.turns.forget(&held.message);
        let act = TurnAct {
            room: held.room.clone(),
            message: held.message.clone(),
            take: Some(held.take),
            note: Some(note.to_owned()),
        };
        self.agent
            .call(|client| {
                let act = act.clone();
                async move { client.release_turn(act).await }
            })
            .await
    }

    /// Renews the leases of held turns for as long as the agent works. Runs until it is dropped.
    pub(crate) async fn renew_leases(&self) {
        loop {
            sleep(RENEW_EVERY).await;
            let idle = self
                .activity
                .last()
                .is_none_or(|last| last.elapsed() > IDLE_LIMIT);
            if idle && !self.activity.at_work() && !self.activity.waiting() {
                continue;
            }
            for held in self.turns.held() {
                self.renew(&held).await;
            }
        }
    }

    async fn renew(&self, held: &Held) {
        let renewed = self
            .agent
            .call(|client| {
                let held = held.clone();
                async move {
                    client
                        .renew_turn(&held.room, &held.message, held.take, None)
                        .await
                }
            })
            .await;
        match renewed {
            Ok(claimed) if claimed.claimed => {}
            Ok(claimed) => {
                self.turns.forget(&held.message);
                let now = claimed
                    .holder
                    .map_or("it is not yours any more".to_owned(), |holder| {
                        format!("{} holds it now", name(&holder.name))
                    });
                self.note(format!(
                    "You lost the turn of {} (message {}): {now}. Do not finish it.",
                    held.from,
                    safe::token(&held.message)
                ));
            }
            Err(error) => tracing::debug!(%error, "a lease was not renewed"),
        }
    }

    /// The session ends: what was answered is done, the rest is open again.
    pub(crate) async fn let_go_of_turns(&self) {
        let let_go = async {
            for held in self.turns.held() {
                let done = if held.answered {
                    self.finish(&held, TaskStatus::Done, Some("answered".to_owned()), None)
                        .await
                } else {
                    self.give_back(&held, "its agent's session ended").await
                };
                if let Err(error) = done {
                    tracing::debug!(%error, "a turn stays taken until its lease ends");
                }
            }
        };
        let _ = timeout(LAST_WORD, let_go).await;
    }

    /// Ends a held turn.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn finish(
        &self,
        held: &Held,
        status: TaskStatus,
        note: Option<String>,
        result: Option<String>,
    ) -> Result<bool, ToolError> {
        let end = Complete {
            room: held.room.clone(),
            message: held.message.clone(),
            status,
            take: Some(held.take),
            note,
            result,
        };
        let done = self
            .agent
            .call(|client| {
                let end = end.clone();
                async move { client.complete_turn(end).await }
            })
            .await?;
        self.turns.forget(&held.message);
        Ok(done)
    }
}

/// What came of taking a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Held now, under this fencing token.
    Yes(i64),
    /// Somebody else has it, whose name this is, or nobody can have it any more.
    No(Option<String>),
}

/// A take of a turn.
pub(crate) fn held(turn: &Turn, take: i64) -> Held {
    Held {
        room: turn.room.clone(),
        message: turn.message.clone(),
        take,
        from: name(&turn.from.name),
        answered: false,
    }
}

fn take_hint(id: &str) -> String {
    format!("To take it before you begin: parler_turn {{\"action\": \"take\", \"id\": \"{id}\"}}.")
}

/// A name in a line of ours.
pub(crate) fn name(claimed: &str) -> String {
    label(claimed)
}

/// Words of a peer, or of the hub about peers, in their frame.
pub(crate) fn words(frame: &Frame, text: &str) -> String {
    frame.wrap(safe::cut(text, LINE_CHARS).0)
}

/// Whether a later turn of the same author to the same addressee is open.
fn supersedes(later: &Turn, turn: &Turn) -> bool {
    let to = |turn: &Turn| turn.to.as_deref().map(|to| to.trim().to_ascii_lowercase());
    later.room == turn.room
        && later.from.id == turn.from.id
        && later.state == TurnState::Open
        && to(later) == to(turn)
        && turn.to.is_some()
}

/// What is told once of a turn that this agent offered: each end, and each reason to stall.
fn outcome_key(turn: &Turn) -> String {
    let why = turn.stalled.as_deref().unwrap_or_default();
    // A reason that only says a later time is no new one.
    let why: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} {} {why}", turn.message, state_word(turn.state))
}

/// What is to be told of a turn that this agent offered: how it ended, or why nothing happens.
pub(crate) fn offered_line(turn: &Turn, frame: &Frame) -> Option<String> {
    let to = turn.to.as_deref().map_or("anyone".to_owned(), name);
    let which = format!(
        "your turn to {to} in room '{}' (message {})",
        safe::token(&turn.room),
        safe::token(&turn.message)
    );
    if turn.state.terminal() {
        let by = turn.taken_by.as_ref();
        let by = by.map(|by| format!(" by {}", name(&by.name)));
        let note = turn.note.as_deref();
        let note = note.map(|note| format!(" Note: {}", words(frame, note)));
        return Some(format!(
            "✔ {which} is {}{}.{}",
            state_word(turn.state),
            by.unwrap_or_default(),
            note.unwrap_or_default()
        ));
    }
    let stalled = turn.stalled.as_deref()?;
    Some(format!("⏳ {which} stalls: {}", words(frame, stalled)))
}

/// What a host is told that is rung for the end of a turn that its agent offered.
pub(crate) fn end_text(turn: &Turn) -> String {
    let frame = Frame::new();
    let line = offered_line(turn, &frame).unwrap_or_default();
    format!(
        "✉ RESULT FOR YOU\n{line}\n{}\nFirst call parler_recv {{\"room\": \"{}\"}}: it shows what \
         was said. Then go on.",
        frame.notice(),
        safe::token(&turn.room)
    )
}

/// A state as a word.
pub(crate) fn state_word(state: TurnState) -> &'static str {
    match state {
        TurnState::Open => "open",
        TurnState::Taken => "taken",
        TurnState::Done => "done",
        TurnState::Failed => "failed",
        TurnState::Declined => "declined",
        TurnState::Cancelled => "cancelled",
        TurnState::Expired => "expired",
    }
}
