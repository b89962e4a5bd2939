//! A long random history, compared at every step with a model that counts everything anew.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parler_protocol::{AgentId, RoomName, Seq};

use super::story::{Story, agent, together};
use crate::{Append, Appended, LogEntry, MessageRule, ReadFrom, StepSize, Store};

const AGENTS: u8 = 5;
const ROOMS: [&str; 3] = ["r0", "r1", "r2"];
const STEPS: usize = 2500;
/// Steps between two restarts.
const LIFETIME: usize = 600;
/// A history that is told every time, beside one that differs each time.
const SEED: u64 = 0x5eed;

/// Small, reproducible, good enough: SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % (n as u64)).unwrap()
    }
}

/// One room of the model: everything in the order in which it happened.
#[derive(Default)]
struct Room {
    /// Place, author, JSON.
    log: Vec<(i64, AgentId, String)>,
    /// Member and cursor.
    cursors: BTreeMap<AgentId, i64>,
    /// The last place that was given.
    head: i64,
    /// When each message was received.
    times: BTreeMap<i64, i64>,
    /// Author and key of a message, its digest, its place.
    keys: BTreeMap<(AgentId, String), (u8, i64)>,
}

impl Room {
    fn head(&self) -> i64 {
        self.head
    }

    /// Deletes the beginning of the log: what is older than `before` and not among the newest.
    fn prune(&mut self, before: i64, keep: usize) {
        while self.log.len() > keep && self.times[&self.log[0].0] < before {
            let gone = self.log.remove(0).0;
            self.keys.retain(|_, (_, place)| *place != gone);
        }
    }

    fn above(&self, floor: i64) -> impl Iterator<Item = &(i64, AgentId, String)> {
        self.log.iter().filter(move |(seq, ..)| *seq > floor)
    }

    fn unread(&self, who: &AgentId) -> (usize, usize) {
        let unread = || self.above(self.cursors[who]);
        let others = unread().filter(|(_, author, _)| author != who);
        (unread().count(), others.count())
    }
}

/// The model, the dice, and where the history stands (for whoever has to replay it).
struct History {
    rooms: [Room; ROOMS.len()],
    dice: Dice,
    at: String,
}

pub(super) async fn any_history_agrees_with_a_simple_model(s: &mut Story) {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let clock = u64::from(clock.unwrap().subsec_nanos());
    // To replay a failure, put its seed here.
    for (number, seed) in [SEED, clock].into_iter().enumerate() {
        let names = ROOMS.map(|room| format!("{room}-{number}"));
        tell(s, &names, seed).await;
    }
}

async fn tell(s: &mut Story, names: &[String], seed: u64) {
    let mut h = History {
        rooms: Default::default(),
        dice: Dice(seed),
        at: String::new(),
    };
    for step in 0..STEPS {
        h.at = format!("seed {seed:#x}, step {step}");
        let room = h.dice.below(ROOMS.len());
        let who = agent(u8::try_from(h.dice.below(AGENTS.into())).unwrap());
        if h.dice.below(25) == 0 {
            h.prune(&*s.store, &names[room], room).await;
        }
        match h.dice.below(10) {
            0 => h.join(s, names, room, &who).await,
            1..4 => h.burst(s, names).await,
            4..6 => h.read(&*s.store, &names[room], room, &who).await,
            6..8 => h.advance(&*s.store, &names[room], room, &who).await,
            _ => h.compare(&*s.store, names, &who).await,
        }
        if step % LIFETIME == LIFETIME - 1 {
            s.reopen().await;
        }
    }
    for n in 0..AGENTS {
        h.compare(&*s.store, names, &agent(n)).await;
    }
}

impl History {
    async fn join(&mut self, s: &Story, names: &[String], room: usize, who: &AgentId) {
        let model = &mut self.rooms[room];
        let Some(member) = model.cursors.keys().next().cloned() else {
            s.open(&names[room], who).await;
            model.cursors.insert(who.clone(), 0);
            return;
        };
        s.join(&names[room], &member, &[who]).await;
        model.cursors.entry(who.clone()).or_insert(0);
    }

    /// Some appends that arrive together, so that they share a commit.
    async fn burst(&mut self, s: &Story, names: &[String]) {
        let drafts: Vec<(usize, Append)> = (0..=self.dice.below(6))
            .map(|_| {
                let room = self.dice.below(ROOMS.len());
                let who = agent(u8::try_from(self.dice.below(AGENTS.into())).unwrap());
                (room, self.draft(s, &names[room], &who))
            })
            .collect();
        let outcomes = drafts
            .iter()
            .map(|(_, draft)| s.store.append(draft.clone()));
        let outcomes = together(outcomes).await;
        for ((room, draft), outcome) in drafts.into_iter().zip(outcomes) {
            self.appended(room, &draft, outcome.unwrap());
        }
    }

    fn draft(&mut self, s: &Story, room: &str, who: &AgentId) -> Append {
        if self.dice.below(2) == 0 {
            return s.draft(room, who);
        }
        // Few keys and digests, so that they meet again.
        let key = format!("key-{}", self.dice.below(40));
        let digest = u8::try_from(self.dice.below(4) / 3).unwrap();
        s.keyed(room, who, &key, digest)
    }

    fn appended(&mut self, room: usize, draft: &Append, outcome: Appended) {
        let (model, at) = (&mut self.rooms[room], &self.at);
        let key = draft
            .client_id
            .clone()
            .map(|key| (draft.agent.clone(), key));
        let digest = draft.digest.map_or(0, |digest| digest[0]);
        let known = key.as_ref().and_then(|key| model.keys.get(key)).copied();
        let member = model.cursors.contains_key(&draft.agent);
        match (member, known, outcome) {
            (false, _, Appended::NotMember) => {}
            (true, Some((was, place)), Appended::Repeat { seq, .. }) => {
                assert_eq!((digest, seq.0), (was, place), "{at}");
            }
            (true, Some((was, _)), Appended::KeyReused) => assert_ne!(digest, was, "{at}"),
            (true, None, Appended::New(entry)) => {
                assert!(entry.seq.0 > model.head(), "{at}");
                let json = entry.json.to_string();
                model.head = entry.seq.0;
                model.times.insert(entry.seq.0, draft.now);
                model.log.push((entry.seq.0, draft.agent.clone(), json));
                if let Some(key) = key {
                    model.keys.insert(key, (digest, entry.seq.0));
                }
            }
            (member, known, outcome) => {
                panic!("{at}: member {member}, known {known:?}, but {outcome:?}")
            }
        }
    }

    /// A place near the log of a room, or far from it.
    fn place(&mut self, room: usize) -> i64 {
        let head = self.rooms[room].head();
        match self.dice.below(8) {
            0 => head,
            1 => head + 1,
            2 => -1,
            _ => i64::try_from(self.dice.below(usize::try_from(head).unwrap() + 1)).unwrap(),
        }
    }

    async fn read(&mut self, store: &dyn Store, name: &str, room: usize, who: &AgentId) {
        let place = self.place(room);
        let limit = self.dice.below(30);
        let (model, at) = (&self.rooms[room], &self.at);
        let cursor = model.cursors.get(who).copied();
        let acks = place <= model.head();
        for (from, floor) in [
            (ReadFrom::Since(Seq(place)), Some(place)),
            (ReadFrom::Cursor { ack: None }, cursor),
            (
                ReadFrom::Cursor {
                    ack: Some(Seq(place)),
                },
                cursor.map(|cursor| if acks { cursor.max(place) } else { cursor }),
            ),
        ] {
            let n = u32::try_from(limit).unwrap();
            let page = store.read(&RoomName::new(name), who, from, n).await;
            let (page, Some(cursor)) = (page.unwrap(), cursor) else {
                assert!(cursor.is_none(), "{at}");
                continue;
            };
            let page = page.unwrap_or_else(|| panic!("{at}: a member cannot read"));
            let floor = floor.unwrap_or_default();
            assert_eq!((page.floor.0, page.cursor.0), (floor, cursor), "{at}");
            let seen = |e: &LogEntry| (e.seq.0, e.author.clone(), e.json.to_string());
            let seen: Vec<_> = page.entries.iter().map(seen).collect();
            let expected: Vec<_> = model.above(floor).take(limit).cloned().collect();
            assert_eq!(seen, expected, "{at}");
        }
    }

    async fn advance(&mut self, store: &dyn Store, name: &str, room: usize, who: &AgentId) {
        let to = self.place(room);
        let model = &mut self.rooms[room];
        let head = model.head();
        let expected = match model.cursors.get_mut(who) {
            None => 0,
            Some(cursor) => {
                if to <= head {
                    *cursor = to.max(*cursor);
                }
                *cursor
            }
        };
        let stands = store.advance(&RoomName::new(name), who, Seq(to), 0).await;
        assert_eq!(stands.unwrap().0, expected, "{}", self.at);
    }

    async fn prune(&mut self, store: &dyn Store, name: &str, room: usize) {
        let keep = self.dice.below(40);
        let before = match self.rooms[room].times.values().last() {
            Some(last) => last - i64::try_from(self.dice.below(60)).unwrap(),
            None => 0,
        };
        let rule = MessageRule {
            before,
            keep: u32::try_from(keep).unwrap(),
        };
        let step = StepSize {
            rows: 7,
            bytes: 300,
        };
        let (mut next, name) = (Some(Seq(0)), RoomName::new(name));
        while let Some(after) = next {
            let pruned = store.prune_room(&name, after, rule, step);
            next = pruned.await.unwrap().next;
        }
        self.rooms[room].prune(before, keep);
    }

    async fn compare(&mut self, store: &dyn Store, names: &[String], who: &AgentId) {
        let rows = store.rooms(who).await.unwrap();
        let of = |n: u32| usize::try_from(n).unwrap();
        let seen: Vec<_> = rows
            .iter()
            .filter(|row| names.iter().any(|name| row.name == *name.as_str()))
            .map(|row| {
                let counts = (of(row.unread), of(row.unread_others));
                (row.name.to_string(), of(row.members), counts)
            })
            .collect();
        let expected: Vec<_> = names
            .iter()
            .zip(&self.rooms)
            .filter(|(_, room)| room.cursors.contains_key(who))
            .map(|(name, room)| (name.clone(), room.cursors.len(), room.unread(who)))
            .collect();
        assert_eq!(seen, expected, "{}", self.at);
    }
}
