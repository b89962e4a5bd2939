//! Facts: what replaces what, who finds what, and in which order.

use parler_protocol::{AgentId, RoomName};

use super::story::{Story, T0, agent};
use crate::{FactHit, Find, LeaveOutcome, NewFact, Recall, RememberOutcome};

fn fact(author: &AgentId, text: &str) -> NewFact {
    NewFact {
        author: author.clone(),
        room: None,
        key: None,
        text: text.to_owned(),
        embedding: None,
        embedding_model: None,
        max_keyed: 100,
        now: T0,
    }
}

fn in_room(author: &AgentId, room: &str, text: &str) -> NewFact {
    NewFact {
        room: Some(RoomName::new(room)),
        ..fact(author, text)
    }
}

fn keyed(fact: NewFact, key: &str) -> NewFact {
    NewFact {
        key: Some(key.to_owned()),
        ..fact
    }
}

/// A point so far along an axis.
fn point(axis: usize, along: f32) -> Vec<f32> {
    let mut point = vec![0.0; 768];
    point[axis] = along;
    point
}

fn at(fact: NewFact, axis: usize, along: f32) -> NewFact {
    NewFact {
        embedding: Some(point(axis, along)),
        embedding_model: Some("axes".to_owned()),
        ..fact
    }
}

async fn remember(s: &Story, fact: NewFact) {
    let outcome = s.store.remember(fact).await.unwrap();
    assert_eq!(outcome, RememberOutcome::Remembered);
}

async fn ask(s: &Story, who: &AgentId, room: Option<&str>, find: Find) -> Option<Vec<FactHit>> {
    let recall = Recall {
        agent: who.clone(),
        room: room.map(RoomName::new),
        find,
        limit: 50,
    };
    s.store.recall(recall).await.unwrap()
}

fn like(text: &str) -> Find {
    Find::Like {
        text: text.to_owned(),
        embedding: None,
    }
}

fn near(text: &str, axis: usize, along: f32) -> Find {
    Find::Like {
        text: text.to_owned(),
        embedding: Some(point(axis, along)),
    }
}

fn texts(hits: Option<Vec<FactHit>>) -> Vec<String> {
    let hits = hits.expect("a member recalls");
    hits.into_iter().map(|hit| hit.text).collect()
}

async fn found(s: &Story, who: &AgentId, find: Find) -> Vec<String> {
    texts(ask(s, who, None, find).await)
}

async fn sorted(s: &Story, who: &AgentId, find: Find) -> Vec<String> {
    let mut texts = found(s, who, find).await;
    texts.sort();
    texts
}

pub(super) async fn a_key_replaces_and_none_appends(s: &mut Story) {
    let a = agent(0);
    remember(s, keyed(fact(&a, "first"), "k")).await;
    let later = NewFact {
        now: T0 + 5,
        ..keyed(fact(&a, "second"), "k")
    };
    remember(s, later).await;
    remember(s, keyed(fact(&a, "capital"), "K")).await;
    let hits = ask(s, &a, None, Find::Key("k".into())).await.unwrap();
    let expected = FactHit {
        text: "second".into(),
        key: Some("k".into()),
        room: None,
        author: a.clone(),
        ts: T0 + 5,
        score: 0.0,
    };
    assert_eq!(hits, [expected]);
    assert!(found(s, &a, like("first")).await.is_empty(), "its words go");
    assert_eq!(found(s, &a, like("second")).await, ["second"]);
    for _ in 0..3 {
        remember(s, fact(&a, "again")).await;
    }
    assert_eq!(found(s, &a, like("again")).await.len(), 3);
    s.reopen().await;
    assert_eq!(found(s, &a, like("second")).await, ["second"]);
}

pub(super) async fn a_key_belongs_to_one_author_in_one_place(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    remember(s, keyed(fact(&a, "private"), "k")).await;
    remember(s, keyed(in_room(&a, "r", "a says"), "k")).await;
    let later = NewFact {
        now: T0 + 1,
        ..keyed(in_room(&b, "r", "b says"), "k")
    };
    remember(s, later).await;
    let in_r = ask(s, &a, Some("r"), Find::Key("k".into())).await;
    assert_eq!(texts(in_r), ["b says", "a says"], "the newest first");
    assert_eq!(found(s, &a, Find::Key("k".into())).await.len(), 3);
    assert_eq!(found(s, &b, Find::Key("k".into())).await.len(), 2);
}

pub(super) async fn an_author_has_no_more_keys_than_it_may(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let capped = |who: &AgentId, key: &str| NewFact {
        max_keyed: 2,
        ..keyed(fact(who, key), key)
    };
    s.open("r", &a).await;
    remember(s, capped(&a, "one")).await;
    let room = Some(RoomName::new("r"));
    let two = NewFact {
        room,
        ..capped(&a, "two")
    };
    remember(s, two).await;
    let third = s.store.remember(capped(&a, "three")).await.unwrap();
    assert_eq!(third, RememberOutcome::AtCapacity);
    remember(s, capped(&a, "one")).await;
    let unkeyed = NewFact {
        max_keyed: 0,
        ..fact(&a, "unkeyed")
    };
    remember(s, unkeyed).await;
    remember(s, capped(&b, "three")).await;
    let none = NewFact {
        max_keyed: 0,
        ..capped(&agent(2), "one")
    };
    let none = s.store.remember(none).await.unwrap();
    assert_eq!(none, RememberOutcome::AtCapacity);
}

pub(super) async fn facts_are_seen_where_they_belong(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    s.join("r", &a, &[&b]).await;
    s.open("own", &a).await;
    for (text, room) in [
        ("in r", Some("r")),
        ("in own", Some("own")),
        ("private", None),
    ] {
        let room = room.map(RoomName::new);
        let fact = at(keyed(fact(&a, &format!("quokka {text}")), "k"), 0, 1.0);
        remember(s, NewFact { room, ..fact }).await;
    }
    for find in [
        like("quokka"),
        near("", 0, 1.0),
        near("quokka", 0, 1.0),
        Find::Key("k".into()),
    ] {
        let all = ["quokka in own", "quokka in r", "quokka private"];
        assert_eq!(sorted(s, &a, find.clone()).await, all, "{find:?}");
        assert_eq!(
            found(s, &b, find.clone()).await,
            ["quokka in r"],
            "{find:?}"
        );
        assert!(found(s, &c, find.clone()).await.is_empty(), "{find:?}");
        let only = ask(s, &a, Some("r"), find.clone()).await;
        assert_eq!(texts(only), ["quokka in r"], "{find:?}");
        for room in ["own", "nowhere"] {
            let foreign = ask(s, &b, Some(room), find.clone()).await;
            assert!(foreign.is_none(), "{find:?} in {room}");
        }
    }
    for stranger in [&b, &c] {
        let foreign = s.store.remember(in_room(stranger, "own", "x")).await;
        assert_eq!(foreign.unwrap(), RememberOutcome::NotMember);
    }
}

pub(super) async fn who_leaves_sees_no_more_and_its_facts_stay(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    remember(s, at(in_room(&b, "r", "numbat"), 0, 1.0)).await;
    let left = s.store.leave(&RoomName::new("r"), &b, 0).await.unwrap();
    assert_eq!(left, LeaveOutcome::Left);
    for find in [like("numbat"), near("", 0, 1.0)] {
        assert!(found(s, &b, find.clone()).await.is_empty());
        assert_eq!(found(s, &a, find).await, ["numbat"]);
    }
}

pub(super) async fn a_deleted_room_takes_its_facts_along(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    remember(s, at(keyed(in_room(&a, "r", "dingo old"), "k"), 0, 1.0)).await;
    remember(s, at(fact(&a, "dingo private"), 0, 1.0)).await;
    s.store.delete_room(&RoomName::new("r"), &a).await.unwrap();
    s.join("r", &b, &[&a]).await;
    remember(s, at(in_room(&b, "r", "dingo new"), 0, 2.0)).await;
    for find in [like("dingo"), near("", 0, 1.0)] {
        assert_eq!(sorted(s, &a, find).await, ["dingo new", "dingo private"]);
    }
    assert!(found(s, &a, Find::Key("k".into())).await.is_empty());
    let again = keyed(in_room(&a, "r", "dingo again"), "k");
    let again = NewFact {
        max_keyed: 1,
        ..again
    };
    remember(s, again).await;
}

pub(super) async fn every_text_is_found_by_what_stands_in_it(s: &mut Story) {
    let a = agent(0);
    // Plainer neighbours of each, so that finding it first takes more than its letters.
    for text in [
        "c c c",
        "don t",
        "gb s",
        "nasa",
        "quoted",
        "near and not or",
        "本日 日々 語学",
    ] {
        for n in 0..3 {
            remember(s, fact(&a, &format!("{text} {n}"))).await;
        }
    }
    for (query, text) in [
        ("C++", "we write C++, mostly, and 1"),
        ("C#", "others write C#."),
        ("don't", "please don’t panic"),
        ("GB/s", "about 3 GB/s."),
        ("@nasa", "ask @NASA!"),
        ("\"mixed\" \"quotes", "mixed \"quotes"),
        ("->", "a -> b"),
        ("日本語", "日本語を話す"),
        ("🚀", "ship it🎉🚀"),
        ("café", "the CAFE is shut"),
        ("Straße", "STRASSENBAHN"),
        ("zygote AND (", "the word zygote"),
        ("NOT NEAR(wombat*, 5)", "a wombat, not near"),
        ("^yak: {col} + -yak", "one yak here"),
        ("ไทย", "พูดภาษาไทยได้"),
    ] {
        remember(s, fact(&a, text)).await;
        let first = found(s, &a, like(query)).await.into_iter().next();
        assert_eq!(first.as_deref(), Some(text), "{query}");
    }
    for query in ["", "  ", "!!! --- ***", "\"\"", "*", "\0"] {
        assert!(found(s, &a, like(query)).await.is_empty(), "{query:?}");
    }
}

pub(super) async fn words_find_by_their_beginnings_and_the_rarest_counts_most(s: &mut Story) {
    let a = agent(0);
    for text in [
        "The quick brown fox",
        "a slow brown dog",
        "FOXGLOVE grows",
        "brown bread",
    ] {
        remember(s, fact(&a, text)).await;
    }
    assert_eq!(
        sorted(s, &a, like("fox")).await,
        ["FOXGLOVE grows", "The quick brown fox"]
    );
    assert_eq!(
        found(s, &a, like("quick dog!")).await.len(),
        2,
        "either word"
    );
    let hits = ask(s, &a, None, like("brown dog")).await.unwrap();
    assert_eq!(hits.len(), 3);
    assert_eq!(hits[0].text, "a slow brown dog");
    assert!(hits.iter().all(|hit| hit.score < 0.0));
    assert!(hits.is_sorted_by(|a, b| a.score <= b.score));
}

pub(super) async fn the_facts_of_others_change_no_order(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    for text in ["emu emu ibis", "ibis plain one", "emu plain one two"] {
        remember(s, fact(&a, text)).await;
    }
    let before = found(s, &a, like("emu ibis")).await;
    for n in 0..200 {
        let text = format!("emu {n}");
        remember(s, at(fact(&b, &text), 0, 1.0)).await;
    }
    remember(s, at(fact(&a, "lyrebird"), 0, 9.0)).await;
    assert_eq!(found(s, &a, like("emu ibis")).await, before);
    assert_eq!(
        found(s, &a, near("", 0, 1.0)).await,
        ["lyrebird"],
        "however near the others' are"
    );
}

pub(super) async fn the_nearest_comes_first_and_a_vector_outlives_an_update(s: &mut Story) {
    let a = agent(0);
    for n in 1..=3_u8 {
        let n = f32::from(n);
        remember(
            s,
            at(keyed(fact(&a, &format!("at {n}")), &n.to_string()), 0, n),
        )
        .await;
    }
    remember(s, fact(&a, "nowhere")).await;
    let hits = ask(s, &a, None, near("", 0, 1.0)).await.unwrap();
    let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
    assert_eq!(scores, [0.0, 1.0, 2.0]);
    remember(s, keyed(fact(&a, "still at 1"), "1")).await;
    assert_eq!(found(s, &a, near("", 0, 1.0)).await[0], "still at 1");
    remember(s, at(keyed(fact(&a, "moved"), "1"), 7, 5.0)).await;
    assert_eq!(found(s, &a, near("", 7, 5.0)).await[0], "moved");
    assert_eq!(found(s, &a, near("", 0, 1.0)).await[0], "at 2");
}

pub(super) async fn what_words_and_vectors_find_is_one_list(s: &mut Story) {
    let a = agent(0);
    // Multi-byte characters at any place where a text might be cut.
    for shift in 0..4 {
        let long = format!("{}okapi {}", "x".repeat(shift), "é🦓".repeat(60));
        remember(s, fact(&a, &long)).await;
    }
    remember(s, at(fact(&a, "okapi both"), 0, 1.0)).await;
    remember(s, at(fact(&a, "vector only"), 0, 3.0)).await;
    let hits = ask(s, &a, None, near("okapi", 0, 1.0)).await.unwrap();
    assert_eq!(hits.len(), 3, "okapi stands in two facts: {hits:?}");
    assert_eq!(hits[0].text, "okapi both");
    assert!(
        (hits[0].score - 2.0 / 61.0).abs() < 1e-9,
        "{}",
        hits[0].score
    );
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    let only = ask(s, &a, None, near("unheard", 0, 1.0)).await.unwrap();
    assert!(only[0].score < 1e-9, "a distance where words find nothing");
}

pub(super) async fn no_more_hits_than_asked_for(s: &mut Story) {
    let a = agent(0);
    for n in 0..60 {
        remember(s, at(fact(&a, &format!("walrus {n}")), 0, 1.0)).await;
    }
    for find in [like("walrus"), near("", 0, 1.0), near("walrus", 0, 1.0)] {
        for limit in [0, 1, 8, 50] {
            let recall = Recall {
                agent: a.clone(),
                room: None,
                find: find.clone(),
                limit,
            };
            let hits = s.store.recall(recall).await.unwrap().unwrap();
            assert_eq!(hits.len(), limit as usize, "{find:?}");
        }
    }
    assert_eq!(
        found(s, &a, like("walrus")).await[0],
        "walrus 59",
        "of equal ones the newest"
    );
}
