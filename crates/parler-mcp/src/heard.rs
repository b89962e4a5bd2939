//! What is unread for this agent, as far as this process has heard of it.
//!
//! A mirror for two purposes: the line about unread things under every answer, and the choice of
//! what to ring for. The hub's log and cursor are the truth; an entry that is missing here costs a
//! hint, never a message. Nothing here talks to anybody.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parler_connector::safe;
use parler_connector::wake::policy::{Class, Decision};
use parler_protocol::{StoredMessage, names::DM_PREFIX};
use tokio::time::Instant;

/// Entries at most; the oldest go. Far more than a line about them can say.
const MAX_HEARD: usize = 512;
/// How long a model has to act on the line before it is rung for the same thing.
pub(crate) const LINE_GRACE: Duration = Duration::from_secs(30);
/// When to try again what could not be rung for: the ledger or the hub was busy, or another session
/// acts in the room.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Rooms whose reading is remembered; beyond that all are forgotten, which costs a hint too many.
const MAX_ROOMS: usize = 1024;

/// What was heard.
#[derive(Default)]
pub(crate) struct Heard {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By place in the log.
    items: BTreeMap<i64, Item>,
    /// How far each room was read. A push may come later than the reading of its message.
    read: HashMap<String, i64>,
    /// How far an answer reaches that is on its way.
    showing: HashMap<String, i64>,
}

struct Item {
    message: Arc<StoredMessage>,
    class: Class,
    wakes: bool,
    told: Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nobody was told.
    No,
    /// A line under an answer spoke of it, or it could not be rung for: not before then.
    NotBefore(Instant),
    /// It was rung for, or must not be.
    Settled,
}

impl Known {
    fn shows(&self, message: &StoredMessage) -> bool {
        self.showing
            .get(&message.room)
            .is_some_and(|to| message.seq <= *to)
    }
}

impl Heard {
    /// Notes an unread message of others. Nothing changes for one that is known or read.
    pub(crate) fn note(&self, message: StoredMessage, decision: Decision) {
        let (class, wakes) = match decision {
            Decision::Wake(class) => (class, true),
            Decision::Hold(class) => (class, false),
            Decision::Drop | Decision::Never(_) => return,
        };
        let mut known = self.lock();
        if known
            .read
            .get(&message.room)
            .is_some_and(|to| message.seq <= *to)
        {
            return;
        }
        known.items.entry(message.seq).or_insert_with(|| Item {
            message: Arc::new(message),
            class,
            wakes,
            told: Told::No,
        });
        while known.items.len() > MAX_HEARD {
            known.items.pop_first();
        }
    }

    /// A turn is open again whose message may have been read: it is to be rung for once more.
    pub(crate) fn offered_again(&self, message: StoredMessage, decision: Decision) {
        let Decision::Wake(class) = decision else {
            return;
        };
        let item = Item {
            message: Arc::new(message),
            class,
            wakes: true,
            told: Told::No,
        };
        let mut known = self.lock();
        known.items.insert(item.message.seq, item);
        while known.items.len() > MAX_HEARD {
            known.items.pop_first();
        }
    }

    /// An answer is on its way that shows everything up to there.
    pub(crate) fn showing(&self, room: &str, seq: i64) {
        self.lock().showing.insert(room.to_owned(), seq);
    }

    /// That answer did not get out.
    pub(crate) fn not_shown(&self, room: &str) {
        self.lock().showing.remove(room);
    }

    /// Everything up to there was read by this process.
    pub(crate) fn read(&self, room: &str, seq: i64) {
        let mut known = self.lock();
        known.showing.remove(room);
        if known.read.len() >= MAX_ROOMS {
            known.read.clear();
        }
        let read = known.read.entry(room.to_owned()).or_default();
        *read = seq.max(*read);
        known
            .items
            .retain(|at, item| *at > seq || item.message.room != room);
    }

    /// The hub's log of that room was set back: what was known of it is about other messages.
    pub(crate) fn set_back(&self, room: &str) {
        let mut known = self.lock();
        known.read.remove(room);
        known.showing.remove(room);
        known.items.retain(|_, item| item.message.room != room);
    }

    /// Whether a room was set back whose log ends there: it was read further.
    pub(crate) fn beyond(&self, room: &str, end: i64) -> bool {
        self.lock().read.get(room).is_some_and(|to| *to > end)
    }

    /// Only what is at or after `first` is still unread in that room; nothing for `None`.
    pub(crate) fn unread_from(&self, room: &str, first: Option<i64>) {
        let gone = |at: i64| first.is_none_or(|first| at < first);
        self.lock()
            .items
            .retain(|at, item| item.message.room != room || !gone(*at));
    }

    /// Nothing is listened for any more.
    pub(crate) fn clear(&self) {
        self.lock().items.clear();
    }

    /// One line about what is directed at this agent and unread; it counts as told.
    pub(crate) fn line(&self, active: Option<&str>) -> Option<String> {
        let now = Instant::now();
        let mut guard = self.lock();
        let known = &mut *guard;
        let mut counts = [0usize; 4];
        let mut elsewhere: Vec<String> = Vec::new();
        for item in known.items.values_mut() {
            let to = known.showing.get(&item.message.room);
            if to.is_some_and(|to| item.message.seq <= *to) {
                continue;
            }
            let kind = match item.class {
                Class::Turn | Class::RoleWork => 0,
                Class::Directed if item.message.room.starts_with(DM_PREFIX) => 1,
                Class::Directed => 2,
                Class::Outcome => 3,
                Class::Ambient | Class::Receipt => continue,
            };
            counts[kind] += 1;
            if item.told == Told::No {
                item.told = Told::NotBefore(now + LINE_GRACE);
            }
            let room = safe::token(&item.message.room);
            if active != Some(item.message.room.as_str()) && !elsewhere.contains(&room) {
                elsewhere.push(room);
            }
        }
        drop(guard);
        let kinds = [
            "turn for you",
            "direct message",
            "mention of you",
            "result for you",
        ];
        let told: Vec<_> = kinds
            .iter()
            .zip(counts)
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| plural(n, kind))
            .collect();
        if told.is_empty() {
            return None;
        }
        let rooms = match elsewhere.as_slice() {
            [] => String::new(),
            rooms => format!(" (in {})", rooms.join(", ")),
        };
        Some(format!(
            "Unread: {}{rooms}. Call parler_recv.",
            told.join(", ")
        ))
    }

    /// The oldest message to ring for.
    pub(crate) fn to_ring(&self) -> Option<(Arc<StoredMessage>, Class)> {
        let known = self.lock();
        let due = |item: &&Item| match item.told {
            Told::No => true,
            Told::NotBefore(at) => at <= Instant::now(),
            Told::Settled => false,
        };
        known
            .items
            .values()
            .filter(|item| item.wakes && !known.shows(&item.message))
            .find(due)
            .map(|item| (Arc::clone(&item.message), item.class))
    }

    /// When the next thing that has to wait is to be rung for; `None` when none is to come.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let known = self.lock();
        let due = known
            .items
            .values()
            .filter(|item| item.wakes)
            .filter_map(|item| match item.told {
                Told::NotBefore(at) => Some(at),
                _ => None,
            });
        // What is due already waits for something else than time.
        due.filter(|at| *at > now).min()
    }

    /// It was rung for that message, or it must not be.
    pub(crate) fn settle(&self, seq: i64) {
        if let Some(item) = self.lock().items.get_mut(&seq) {
            item.told = Told::Settled;
        }
    }

    /// It could not be rung for now, and is to be tried again.
    pub(crate) fn try_later(&self, seq: i64) {
        if let Some(item) = self.lock().items.get_mut(&seq) {
            let at = Instant::now() + TRY_AGAIN;
            item.told = match item.told {
                Told::NotBefore(later) if later > at => Told::NotBefore(later),
                _ => Told::NotBefore(at),
            };
        }
    }

    /// An old message offered again is nobody's business.
    pub(crate) fn forget(&self, seq: i64) {
        self.lock().items.remove(&seq);
    }

    /// How many things wait beside that message.
    pub(crate) fn beside(&self, seq: i64) -> usize {
        self.lock().items.keys().filter(|at| **at != seq).count()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `1 turn for you`, `2 turns for you`.
fn plural(n: usize, kind: &str) -> String {
    if n == 1 {
        return format!("1 {kind}");
    }
    match kind.split_once(' ') {
        Some((word, rest)) if rest != "message" => format!("{n} {word}s {rest}"),
        _ => format!("{n} {kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::EndpointRef;

    fn message(seq: i64, room: &str) -> StoredMessage {
        StoredMessage {
            seq,
            id: format!("m{seq}"),
            room: room.into(),
            from: EndpointRef {
                id: "U".into(),
                name: "planner".into(),
                role: None,
            },
            parts: Vec::new(),
            mentions: None,
            reply_to: None,
            ts: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_line_counts_what_is_directed_and_names_other_rooms() {
        let heard = Heard::default();
        assert_eq!(heard.line(None), None);
        heard.note(message(1, "auth"), Decision::Wake(Class::Turn));
        heard.note(message(2, "dm.abc"), Decision::Wake(Class::Directed));
        heard.note(message(3, "dm.abc"), Decision::Hold(Class::Directed));
        heard.note(message(4, "auth"), Decision::Hold(Class::Ambient));
        heard.note(message(5, "auth"), Decision::Drop);
        assert_eq!(
            heard.line(Some("auth")).unwrap(),
            "Unread: 1 turn for you, 2 direct messages (in dm.abc). Call parler_recv."
        );
        heard.read("dm.abc", 3);
        heard.unread_from("auth", Some(4));
        assert_eq!(heard.line(Some("auth")), None);
        assert_eq!(heard.beside(0), 1);
        heard.unread_from("auth", None);
        assert_eq!(heard.beside(0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_line_told_is_rung_for_only_when_the_model_does_not_act() {
        let heard = Heard::default();
        heard.note(message(1, "auth"), Decision::Wake(Class::Turn));
        assert_eq!(heard.to_ring().unwrap().0.seq, 1);
        heard.line(None);
        assert!(heard.to_ring().is_none());
        assert_eq!(heard.next_due(), Some(Instant::now() + LINE_GRACE));
        tokio::time::advance(LINE_GRACE).await;
        assert_eq!(heard.next_due(), None);
        assert_eq!(heard.to_ring().unwrap().1, Class::Turn);
        heard.settle(1);
        assert!(heard.to_ring().is_none());
        assert!(heard.line(None).is_some(), "rung for and still unread");
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_rung_for_is_tried_again() {
        let heard = Heard::default();
        heard.note(message(1, "auth"), Decision::Wake(Class::Ambient));
        heard.note(message(2, "auth"), Decision::Wake(Class::Turn));
        heard.try_later(1);
        assert_eq!(heard.to_ring().unwrap().0.seq, 2);
        heard.settle(2);
        assert!(heard.to_ring().is_none());
        tokio::time::advance(TRY_AGAIN).await;
        assert_eq!(heard.to_ring().unwrap().0.seq, 1);
    }

    #[test]
    fn what_an_answer_shows_is_neither_hinted_at_nor_rung_for() {
        let heard = Heard::default();
        heard.showing("auth", 2);
        heard.note(message(1, "auth"), Decision::Wake(Class::Turn));
        heard.note(message(3, "auth"), Decision::Wake(Class::Turn));
        assert_eq!(heard.to_ring().unwrap().0.seq, 3);
        assert!(heard.line(None).unwrap().contains("1 turn"));
        heard.not_shown("auth");
        assert_eq!(heard.to_ring().unwrap().0.seq, 1);
        heard.showing("auth", 2);
        heard.read("auth", 2);
        assert_eq!(heard.beside(0), 1);
    }

    #[test]
    fn a_push_that_comes_after_its_message_was_read_is_nothing_new() {
        let heard = Heard::default();
        heard.read("auth", 5);
        heard.note(message(5, "auth"), Decision::Wake(Class::Turn));
        assert!(heard.to_ring().is_none());
        heard.note(message(6, "auth"), Decision::Hold(Class::Ambient));
        assert!(heard.to_ring().is_none(), "held back");
        heard.note(message(7, "auth"), Decision::Wake(Class::Ambient));
        assert_eq!(heard.to_ring().unwrap().0.seq, 7);
    }

    #[test]
    fn a_room_that_was_set_back_is_listened_to_again() {
        let heard = Heard::default();
        heard.read("auth", 5);
        assert!(heard.beyond("auth", 3) && !heard.beyond("auth", 5));
        heard.note(message(3, "auth"), Decision::Wake(Class::Turn));
        assert!(heard.to_ring().is_none());
        heard.set_back("auth");
        heard.note(message(3, "auth"), Decision::Wake(Class::Turn));
        assert_eq!(heard.to_ring().unwrap().0.seq, 3);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let heard = Heard::default();
        for seq in 0..1000 {
            heard.note(message(seq, "auth"), Decision::Wake(Class::Ambient));
        }
        assert_eq!(
            heard.to_ring().unwrap().0.seq,
            1000 - i64::try_from(MAX_HEARD).unwrap()
        );
    }

    #[test]
    fn words_are_counted_as_people_do() {
        assert_eq!(plural(2, "turn for you"), "2 turns for you");
        assert_eq!(plural(2, "direct message"), "2 direct messages");
        assert_eq!(plural(1, "mention of you"), "1 mention of you");
    }
}
