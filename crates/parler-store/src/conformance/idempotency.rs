//! One logical send is stored once, however often it arrives.

use super::story::{Story, agent, together};
use crate::{Append, Appended, LogEntry};

fn repeats(outcome: &Appended, original: &LogEntry) {
    match outcome {
        Appended::Repeat { id, seq } => {
            assert_eq!((id.as_str(), *seq), (&*original.id, original.seq));
        }
        other => panic!("not a repeat: {other:?}"),
    }
}

pub(super) async fn a_repeat_is_answered_with_the_original(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let original = s.append(s.keyed("r", &a, "key", 1)).await;
    s.say("r", &a).await;
    for _ in 0..3 {
        // Another id, another time, other bytes: the digest says that it is the same.
        let outcome = s.store.append(s.keyed("r", &a, "key", 1)).await.unwrap();
        repeats(&outcome, &original);
    }
    assert_eq!(s.log("r", &a).await.len(), 2);
    assert_eq!(s.unread("r", &a).await, (2, 0));
}

pub(super) async fn a_key_with_other_parts_is_refused(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let original = s.append(s.keyed("r", &a, "key", 1)).await;
    s.heard.take();
    let outcome = s.store.append(s.keyed("r", &a, "key", 2)).await.unwrap();
    assert!(matches!(outcome, Appended::KeyReused), "{outcome:?}");
    assert_eq!(s.heard.take(), [""; 0]);
    let outcome = s.store.append(s.keyed("r", &a, "key", 1)).await.unwrap();
    repeats(&outcome, &original);
    assert_eq!(s.log("r", &a).await.len(), 1);
}

pub(super) async fn a_key_belongs_to_one_author_in_one_room(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.open("other", &a).await;
    s.join("r", &a, &[&b]).await;
    for (room, who) in [("r", &a), ("r", &b), ("other", &a)] {
        s.append(s.keyed(room, who, "key", 1)).await;
    }
    for other in ["Key", "key ", "ke", "key\0"] {
        s.append(s.keyed("r", &a, other, 1)).await;
    }
    assert_eq!(s.log("r", &a).await.len(), 6);
}

pub(super) async fn an_empty_key_is_a_key_and_none_is_not(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let original = s.append(s.keyed("r", &a, "", 1)).await;
    let outcome = s.store.append(s.keyed("r", &a, "", 1)).await.unwrap();
    repeats(&outcome, &original);
    let draft = s.draft("r", &a);
    for n in 0..2 {
        let id = format!("without-a-key-{n}");
        let draft = draft.clone();
        s.append(Append { id, ..draft }).await;
    }
    assert_eq!(s.log("r", &a).await.len(), 3);
}

pub(super) async fn a_strangers_repeat_is_a_strangers(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.append(s.keyed("r", &a, "key", 1)).await;
    let outcome = s.store.append(s.keyed("r", &b, "key", 1)).await.unwrap();
    assert!(matches!(outcome, Appended::NotMember), "{outcome:?}");
}

pub(super) async fn one_of_many_concurrent_repeats_is_stored(s: &mut Story) {
    const TRIES: usize = 32;
    let a = agent(0);
    s.open("r", &a).await;
    let outcomes = together((0..TRIES).map(|_| s.store.append(s.keyed("r", &a, "key", 1)))).await;
    let outcomes: Vec<Appended> = outcomes.into_iter().map(Result::unwrap).collect();
    let stored: Vec<&LogEntry> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Appended::New(entry) => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(stored.len(), 1);
    for outcome in &outcomes {
        if !matches!(outcome, Appended::New(_)) {
            repeats(outcome, stored[0]);
        }
    }
    assert_eq!(s.log("r", &a).await.len(), 1);
    assert_eq!(s.heard.take_entries().len(), 1);
}

pub(super) async fn keys_survive_a_restart(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let original = s.append(s.keyed("r", &a, "key", 1)).await;
    s.reopen().await;
    let outcome = s.store.append(s.keyed("r", &a, "key", 1)).await.unwrap();
    repeats(&outcome, &original);
    let outcome = s.store.append(s.keyed("r", &a, "key", 2)).await.unwrap();
    assert!(matches!(outcome, Appended::KeyReused), "{outcome:?}");
    s.append(s.keyed("r", &a, "another", 1)).await;
}
