//! Retention: what may go, what stays, and what the counts say then.

use parler_protocol::{AgentId, RoomName, Seq};

use super::story::{LIFE, Story, T0, agent};
use crate::{
    Append, Appended, FactPlace, Find, LeaveOutcome, MessageRule, NewFact, Pruned, ReadFrom,
    Recall, RedeemOutcome, RememberOutcome, StepSize,
};

/// Larger than anything that these stories delete at once.
const ALL: StepSize = StepSize {
    rows: 1000,
    bytes: u64::MAX,
};

fn rule(before: i64, keep: u32) -> MessageRule {
    MessageRule { before, keep }
}

/// Everything but the newest `keep`.
fn newest(keep: u32) -> MessageRule {
    rule(i64::MAX, keep)
}

async fn prune(s: &Story, room: &str, rule: MessageRule, step: StepSize) -> Vec<u32> {
    let room = RoomName::new(room);
    let mut deleted = Vec::new();
    let mut after = Seq(0);
    loop {
        let pruned = s.store.prune_room(&room, after, rule, step).await.unwrap();
        deleted.push(pruned.deleted);
        match pruned.next {
            Some(next) => {
                assert!(next > after);
                after = next;
            }
            None => return deleted,
        }
    }
}

async fn places(s: &Story, room: &str, who: &AgentId) -> Vec<Seq> {
    let log = s.log(room, who).await;
    log.iter().map(|entry| entry.seq).collect()
}

async fn say_at(s: &Story, room: &str, who: &AgentId, now: i64) -> Seq {
    let draft = s.draft(room, who);
    s.append(Append { now, ..draft }).await.seq
}

pub(super) async fn a_message_goes_when_it_is_old_and_not_among_the_newest(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let mut said = Vec::new();
    for age in 0..10 {
        said.push(say_at(s, "r", &a, T0 + age).await);
    }
    for (rule, left) in [
        (rule(T0, 0), &said[..]),
        (newest(10), &said[..]),
        (newest(11), &said[..]),
        (rule(T0 + 1, 9), &said[1..]),
        (rule(T0 + 6, 7), &said[3..]),
        (rule(T0 + 6, 0), &said[6..]),
        (newest(1), &said[9..]),
        (newest(0), &[]),
        (newest(0), &[]),
    ] {
        prune(s, "r", rule, ALL).await;
        assert_eq!(places(s, "r", &a).await, left, "{rule:?}");
    }
    let after = say_at(s, "r", &a, T0).await;
    assert!(after > said[9]);
    assert_eq!(places(s, "r", &a).await, [after]);
}

pub(super) async fn a_step_does_no_more_than_it_may(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    for _ in 0..10 {
        s.say("r", &a).await;
    }
    let rows = |rows| StepSize { rows, ..ALL };
    assert_eq!(prune(s, "r", newest(5), rows(2)).await, [2, 2, 1]);
    assert_eq!(prune(s, "r", newest(3), rows(0)).await, [1, 1, 0]);
    let bytes = StepSize { bytes: 1, ..ALL };
    assert_eq!(prune(s, "r", newest(1), bytes).await, [1, 1, 0]);
    let nowhere = RoomName::new("nowhere");
    let pruned = s.store.prune_room(&nowhere, Seq(0), newest(0), ALL).await;
    let nothing = Pruned {
        deleted: 0,
        next: None,
    };
    assert_eq!(pruned.unwrap(), nothing);
}

pub(super) async fn unread_counts_are_those_of_what_is_left(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let mut said = Vec::new();
    for author in [&a, &b, &b, &a, &b, &a, &a, &b] {
        said.push(s.say("r", author).await.seq);
    }
    // One cursor is where messages go, one is behind them.
    s.advance("r", &a, said[1]).await;
    s.advance("r", &b, said[5]).await;
    assert_eq!(s.unread("r", &a).await, (6, 3));
    assert_eq!(s.unread("r", &b).await, (2, 1));
    prune(s, "r", newest(4), ALL).await;
    assert_eq!(s.unread("r", &a).await, (4, 2));
    assert_eq!(s.unread("r", &b).await, (2, 1));
    s.reopen().await;
    assert_eq!(s.unread("r", &a).await, (4, 2));
    // Into what is gone, over its end, and to the head.
    for (to, left) in [(2, (4, 2)), (3, (4, 2)), (4, (3, 1)), (7, (0, 0))] {
        s.advance("r", &a, said[to]).await;
        assert_eq!(s.unread("r", &a).await, left, "at {to}");
    }
    s.say("r", &b).await;
    prune(s, "r", newest(0), ALL).await;
    assert_eq!(s.unread("r", &a).await, (0, 0));
    assert_eq!(s.unread("r", &b).await, (0, 0));
    s.say("r", &b).await;
    assert_eq!(s.unread("r", &a).await, (1, 1));
    assert_eq!(s.unread("r", &b).await, (1, 0));
}

pub(super) async fn who_comes_back_finds_the_counts_of_what_is_left(s: &mut Story) {
    let (a, b, room) = (agent(0), agent(1), RoomName::new("r"));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    for author in [&b, &b, &a, &b] {
        s.say("r", author).await;
    }
    let left = s.store.leave(&room, &b, T0).await.unwrap();
    assert_eq!(left, LeaveOutcome::Left);
    prune(s, "r", newest(3), ALL).await;
    s.join("r", &a, &[&b]).await;
    assert_eq!(s.unread("r", &b).await, (3, 1));
    // All that it wrote goes while it is in: nothing of it may come back later.
    prune(s, "r", newest(0), ALL).await;
    s.store.leave(&room, &b, T0).await.unwrap();
    s.join("r", &a, &[&b]).await;
    s.say("r", &a).await;
    assert_eq!(s.unread("r", &b).await, (1, 1));
}

pub(super) async fn cursors_stay_and_no_place_is_used_again(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let first = s.say("r", &a).await.seq;
    let head = s.say("r", &a).await.seq;
    s.advance("r", &b, first).await;
    prune(s, "r", newest(0), ALL).await;
    s.reopen().await;
    let page = s.read("r", &b, ReadFrom::Cursor { ack: None }).await;
    assert_eq!((page.cursor, page.entries.len()), (first, 0));
    // The head is still a place that can be confirmed.
    assert_eq!(s.advance("r", &b, head).await, head);
    assert!(s.say("r", &a).await.seq > head);
    assert_eq!(s.unread("r", &b).await, (1, 1));
}

pub(super) async fn a_key_is_free_when_its_message_is_gone(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    s.append(s.keyed("r", &a, "k", 1)).await;
    s.say("r", &a).await;
    let again = s.store.append(s.keyed("r", &a, "k", 2)).await.unwrap();
    assert!(matches!(again, Appended::KeyReused), "{again:?}");
    prune(s, "r", newest(1), ALL).await;
    s.append(s.keyed("r", &a, "k", 2)).await;
}

pub(super) async fn rooms_are_named_in_which_something_may_go(s: &mut Story) {
    let a = agent(0);
    for (room, messages) in [("a", 3), ("b", 0), ("c", 1), ("d", 2)] {
        s.open(room, &a).await;
        for age in 0..messages {
            say_at(s, room, &a, T0 + age).await;
        }
    }
    let ask = async |after: Option<&str>, rule, limit| {
        let after = after.map(RoomName::new);
        let rooms = s.store.rooms_to_prune(after.as_ref(), rule, limit).await;
        let names = rooms.unwrap().iter().map(RoomName::to_string).collect();
        let names: Vec<String> = names;
        names.join(" ")
    };
    assert_eq!(ask(None, newest(0), 10).await, "a c d");
    assert_eq!(ask(None, newest(0), 2).await, "a c");
    assert_eq!(ask(Some("a"), newest(0), 2).await, "c d");
    assert_eq!(ask(Some("aa"), newest(0), 2).await, "c d");
    assert_eq!(ask(None, newest(1), 10).await, "a d");
    assert_eq!(ask(None, newest(2), 10).await, "a");
    assert_eq!(ask(None, rule(T0, 0), 10).await, "");
    prune(s, "a", newest(0), ALL).await;
    assert_eq!(ask(None, newest(0), 10).await, "c d");
}

pub(super) async fn invites_go_when_they_ended_unless_somebody_waits(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let plain = s.open("plain", &a).await;
    let mut gated = s.new_invite(&a, "gated");
    gated.gated = true;
    let gated = s.mint(gated).await;
    let pending = RedeemOutcome::Pending {
        room: RoomName::new("gated"),
        new: true,
    };
    assert_eq!(s.redeem(gated, &b).await, pending);
    let end = T0 + LIFE;
    let sweep = async |now, asked_before, limit| {
        let gone = s.store.sweep_invites(now, asked_before, limit).await;
        gone.unwrap()
    };
    assert_eq!(sweep(end, T0, 10).await, 0, "the last moment counts");
    assert_eq!(sweep(end + 1, T0, 0).await, 0);
    assert_eq!(sweep(end + 1, T0, 10).await, 1);
    let late = end + 1;
    assert_eq!(s.redeem_at(plain, &b, late).await, RedeemOutcome::Unknown);
    let waits = s.redeem_at(gated, &b, late).await;
    assert!(
        matches!(waits, RedeemOutcome::Pending { new: false, .. }),
        "{waits:?}"
    );
    assert_eq!(sweep(end + 2, end + 1, 10).await, 1, "not for ever");
    assert_eq!(s.redeem_at(gated, &b, late).await, RedeemOutcome::Unknown);
    for room in ["x", "y", "z"] {
        s.open(room, &a).await;
    }
    assert_eq!(sweep(end + 1, T0, 2).await, 2);
    assert_eq!(sweep(end + 1, T0, 2).await, 1);
}

pub(super) async fn the_oldest_facts_without_a_key_go(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let note = async |who: &AgentId, room: Option<&str>, key: Option<&str>, n: u32| {
        let fact = NewFact {
            author: who.clone(),
            room: room.map(RoomName::new),
            key: key.map(str::to_owned),
            text: format!("fact{n}"),
            embedding: None,
            embedding_model: None,
            max_keyed: 100,
            now: T0,
        };
        let outcome = s.store.remember(fact).await.unwrap();
        assert_eq!(outcome, RememberOutcome::Remembered);
    };
    for n in 0..5 {
        note(&a, Some("r"), None, n).await;
        note(&a, None, None, 10 + n).await;
        note(&a, None, Some(&format!("k{n}")), 20 + n).await;
    }
    note(&b, Some("r"), None, 30).await;
    let found = async || {
        let recall = Recall {
            agent: a.clone(),
            room: None,
            find: Find::Like {
                text: "fact".into(),
                embedding: None,
            },
            limit: 50,
        };
        let hits = s.store.recall(recall).await.unwrap().unwrap();
        let mut texts: Vec<String> = hits.into_iter().map(|hit| hit.text).collect();
        texts.sort_unstable();
        texts.join(" ").replace("fact", "")
    };
    let sweep = async |keep, step| {
        let (mut deleted, mut next) = (Vec::new(), Some(FactPlace::START));
        while let Some(from) = next {
            let swept = s.store.sweep_facts(from, keep, step).await.unwrap();
            if swept.next.is_some() {
                deleted.push(swept.deleted);
            }
            next = swept.next;
        }
        deleted
    };
    assert_eq!(sweep(5, ALL).await, [0; 0]);
    let all = "0 1 10 11 12 13 14 2 20 21 22 23 24 3 30 4";
    assert_eq!(found().await, all);
    let two = StepSize { rows: 2, ..ALL };
    assert_eq!(sweep(2, two).await, [2, 1, 2, 1]);
    assert_eq!(found().await, "13 14 20 21 22 23 24 3 30 4");
    let bytes = StepSize { bytes: 1, ..ALL };
    assert_eq!(sweep(1, bytes).await, [1, 1]);
    assert_eq!(sweep(0, ALL).await, [1, 1, 1]);
    assert_eq!(found().await, "20 21 22 23 24");
}
