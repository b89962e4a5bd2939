//! What this server knows of turns: which it holds, what it told already, and the words for them.
//!
//! Talks to nobody: [`crate::holding`] takes and ends turns, [`crate::lead`] puts them at the head
//! of an answer.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parler_connector::safe;
use parler_connector::safe::model::{Frame, label};
use parler_protocol::parts::Hop;
use parler_protocol::{SigPart, StoredMessage, Turn, TurnState, TypedPart};
use tokio::time::Instant;

/// Turns that this server renews. An agent works at one; the rest is what it took by mistake.
const MAX_HELD: usize = 32;
/// Lines that were told once: turn and reason.
const MAX_TOLD: usize = 512;
/// Characters of a peer's or the hub's words in a line of ours.
const LINE_CHARS: usize = 300;
/// How long what an agent sends counts as the work of the message that it was rung for. The hub
/// forgets a chain after the same silence.
const CHAIN_LASTS: Duration = Duration::from_secs(10 * 60);
/// Bytes of the id of a chain, which any peer can choose.
const MAX_ROOT_BYTES: usize = 64;

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
    /// Place in the chain of automatic turns of what is sent while it is held.
    pub(crate) hop: Option<Hop>,
}

/// What this server knows of turns.
pub(crate) struct Turns {
    known: Mutex<Known>,
    /// A turn that names this agent is taken by itself.
    pub(crate) auto: bool,
}

#[derive(Default)]
struct Known {
    held: Vec<Held>,
    /// Room and message of claims whose answer did not come (yet).
    claiming: VecDeque<(String, String)>,
    no_ledger: bool,
    /// What was told already, in the order of the telling.
    told: HashSet<String>,
    order: VecDeque<String>,
    /// What a message that this agent was rung for makes of what it sends.
    rung: Option<(Hop, Instant)>,
}

impl Turns {
    pub(crate) fn new(auto: bool) -> Self {
        Turns {
            known: Mutex::default(),
            auto,
        }
    }

    /// Whether the hub is known to keep no ledger.
    pub(crate) fn no_ledger(&self) -> bool {
        self.lock().no_ledger
    }

    /// The hub keeps none.
    pub(crate) fn has_no_ledger(&self) {
        self.lock().no_ledger = true;
    }

    /// Every turn that this server took and that did not end.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.lock().held.clone()
    }

    /// Whether this server holds that turn.
    pub(crate) fn holds(&self, message: &str) -> bool {
        self.lock().held.iter().any(|held| held.message == message)
    }

    /// The one turn held in a room; `None` when there is none, or more than one.
    pub(crate) fn only_in(&self, room: &str) -> Option<Held> {
        let known = self.lock();
        let mut here = known.held.iter().filter(|held| held.room == room);
        let first = here.next()?;
        here.next().is_none().then(|| first.clone())
    }

    /// A claim is on its way: until its answer comes nobody knows who holds the turn.
    pub(crate) fn claiming(&self, room: &str, message: &str) {
        let mut known = self.lock();
        known.claiming.push_back((room.into(), message.into()));
        if known.claiming.len() > MAX_HELD {
            known.claiming.pop_front();
        }
    }

    /// Its answer came.
    pub(crate) fn claim_answered(&self, message: &str) {
        self.lock().claiming.retain(|(_, other)| other != message);
    }

    /// Claims whose answer did not come.
    pub(crate) fn unanswered_claims(&self) -> Vec<(String, String)> {
        self.lock().claiming.iter().cloned().collect()
    }

    /// Notes a take, in the place of an older one of the same turn.
    pub(crate) fn hold(&self, mut held: Held) {
        let mut known = self.lock();
        if let Some(at) = known.held.iter().position(|o| o.message == held.message) {
            let before = known.held.remove(at);
            held.answered |= before.answered && before.take == held.take;
            held.hop = held.hop.or(before.hop);
        }
        known.held.push(held);
        if known.held.len() > MAX_HELD {
            known.held.remove(0);
        }
    }

    /// The turn is over for this agent.
    pub(crate) fn forget(&self, message: &str) {
        self.lock().held.retain(|held| held.message != message);
    }

    /// The hub says that this take, or a later one, is over: of what a hook ended, for example.
    pub(crate) fn over(&self, message: &str, take: i64) {
        self.lock()
            .held
            .retain(|held| held.message != message || held.take > take);
    }

    /// Something was said in its room.
    pub(crate) fn answered(&self, message: &str) {
        for held in &mut self.lock().held {
            held.answered |= held.message == message;
        }
    }

    /// The host was rung for that message, and acted.
    pub(crate) fn rung_for(&self, message: &StoredMessage) {
        self.lock().rung = Some((hop_after(message), Instant::now()));
    }

    /// Place in a chain of what is sent now; `None` when no peer's message started this.
    pub(crate) fn hop(&self) -> Option<Hop> {
        let known = self.lock();
        let held = known.held.iter().filter_map(|held| held.hop.clone());
        let rung = known.rung.as_ref();
        let rung = rung.filter(|(_, at)| at.elapsed() < CHAIN_LASTS);
        held.chain(rung.map(|(hop, _)| hop.clone()))
            .max_by_key(|hop| hop.n)
    }

    /// Whether that was not told before; it is now.
    pub(crate) fn tell_once(&self, key: String) -> bool {
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

    /// Whether the model was shown that take of a turn.
    pub(crate) fn was_shown(&self, message: &str, take: i64) -> bool {
        self.lock().told.contains(&take_key(message, take))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Under what a take is noted as shown.
pub(crate) fn take_key(message: &str, take: i64) -> String {
    format!("{message} {take}")
}

/// Where what follows on a message stands in its chain.
pub(crate) fn hop_after(message: &StoredMessage) -> Hop {
    let before = SigPart::find(&message.parts).and_then(|sig| sig.hop);
    let root = before.as_ref().map(|hop| hop.root.clone());
    Hop {
        n: before.map_or(0, |hop| hop.n).saturating_add(1),
        root: root
            .filter(|root| !root.is_empty() && root.len() <= MAX_ROOT_BYTES)
            .unwrap_or_else(|| message.id.clone()),
    }
}

/// A take of a turn.
pub(crate) fn held(turn: &Turn, take: i64) -> Held {
    Held {
        room: turn.room.clone(),
        message: turn.message.clone(),
        take,
        from: name(&turn.from.name),
        answered: false,
        hop: None,
    }
}

/// A name in a line of ours.
pub(crate) fn name(claimed: &str) -> String {
    label(claimed)
}

/// Words of a peer, or of the hub about peers, in their frame.
pub(crate) fn words(frame: &Frame, text: &str) -> String {
    frame.wrap(safe::cut(text, LINE_CHARS).0)
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
        let result = turn.result.as_deref();
        let result = result.map(|blob| format!(" Result: blob {}.", safe::token(blob)));
        return Some(format!(
            "✔ {which} is {}{}.{}{}",
            turn.state.as_str(),
            by.unwrap_or_default(),
            note.unwrap_or_default(),
            result.unwrap_or_default()
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

/// Under what the end of a turn is noted as told.
pub(crate) fn end_key(message: &str) -> String {
    format!("{message} end")
}

/// Under what each reason of a turn to stall is noted as told.
pub(crate) fn stall_key(turn: &Turn) -> String {
    let why = turn.stalled.as_deref().unwrap_or_default();
    // A reason that only says a later time is no new one.
    let why: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} stalls: {why}", turn.message)
}

/// Whether a later turn of the same author to the same addressee is open.
pub(crate) fn supersedes(later: &Turn, turn: &Turn) -> bool {
    let to = |turn: &Turn| turn.to.as_deref().map(|to| to.trim().to_ascii_lowercase());
    later.room == turn.room
        && later.from.id == turn.from.id
        && later.state == TurnState::Open
        && to(later) == to(turn)
        && turn.to.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::EndpointRef;

    fn take(message: &str, room: &str, n: u32) -> Held {
        Held {
            room: room.into(),
            message: message.into(),
            take: 1,
            from: "planner".into(),
            answered: false,
            hop: Some(Hop {
                n,
                root: "r".into(),
            }),
        }
    }

    fn message(parts: Vec<parler_protocol::Part>) -> StoredMessage {
        StoredMessage {
            seq: 1,
            id: "m1".into(),
            room: "auth".into(),
            from: EndpointRef {
                id: "UA".into(),
                name: "planner".into(),
                role: None,
            },
            parts,
            mentions: None,
            reply_to: None,
            ts: 0,
        }
    }

    fn signed(n: u32, root: &str) -> StoredMessage {
        let sig = SigPart {
            sig: String::new(),
            alg: "ed25519".into(),
            v: 1,
            ts: 0,
            uid: "u".into(),
            target: parler_protocol::Target::Room {
                room: "auth".into(),
            },
            hop: Some(Hop {
                n,
                root: root.into(),
            }),
        };
        message(vec![sig.to_part()])
    }

    #[test]
    fn an_answer_belongs_to_the_one_turn_that_is_held_in_the_room() {
        let turns = Turns::new(true);
        turns.hold(take("a", "auth", 1));
        turns.hold(take("b", "other", 1));
        assert_eq!(turns.only_in("auth").unwrap().message, "a");
        turns.answered("a");
        turns.hold(take("a", "auth", 1));
        assert!(turns.only_in("auth").unwrap().answered, "the same take");
        turns.hold(take("c", "auth", 1));
        assert_eq!(turns.only_in("auth"), None, "which of the two?");
        turns.forget("c");
        assert_eq!(turns.only_in("auth").unwrap().message, "a");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let turns = Turns::new(true);
        for n in 0..1000 {
            turns.hold(take(&format!("m{n}"), "auth", 1));
            turns.claiming("auth", &format!("m{n}"));
            turns.tell_once(format!("{n}"));
        }
        assert_eq!(turns.held().len(), MAX_HELD);
        assert_eq!(turns.unanswered_claims().len(), MAX_HELD);
        assert!(turns.tell_once("0".into()), "long ago");
        assert!(!turns.tell_once("999".into()));
    }

    #[test]
    fn a_chain_goes_on_from_the_message_that_started_it() {
        assert_eq!(
            hop_after(&message(Vec::new())),
            Hop {
                n: 1,
                root: "m1".into()
            }
        );
        assert_eq!(
            hop_after(&signed(4, "m0")),
            Hop {
                n: 5,
                root: "m0".into()
            }
        );
        let odd = hop_after(&signed(u32::MAX, &"x".repeat(10_000)));
        assert_eq!((odd.n, odd.root.as_str()), (u32::MAX, "m1"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_is_part_of_the_longest_chain_that_lasts() {
        let turns = Turns::new(true);
        assert_eq!(turns.hop(), None, "nobody started this but a person");
        turns.rung_for(&signed(1, "m0"));
        turns.hold(take("a", "auth", 7));
        assert_eq!(turns.hop().unwrap().n, 7);
        turns.forget("a");
        assert_eq!(turns.hop().unwrap().n, 2);
        tokio::time::advance(CHAIN_LASTS).await;
        assert_eq!(turns.hop(), None);
    }
}
