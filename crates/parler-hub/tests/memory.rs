//! Remembering and recalling, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::{Value, json};

async fn agent(hub: &TestHub, n: u8) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), "x", None).await
}

async fn remember(socket: &mut RawSocket, fact: Value) {
    let reply = socket.ask(json!({"op": "remember", "fact": fact})).await;
    assert_eq!(reply, json!({"type": "remembered", "ok": true}), "{fact}");
}

/// The reply to a recall with these fields.
async fn ask(socket: &mut RawSocket, fields: Value) -> Value {
    let mut frame = json!({"op": "recall", "query": ""});
    for (key, value) in fields.as_object().unwrap() {
        frame[key] = value.clone();
    }
    socket.ask(frame).await
}

async fn recall(socket: &mut RawSocket, fields: Value) -> Vec<Value> {
    let reply = ask(socket, fields).await;
    let hits = reply["hits"].as_array();
    hits.unwrap_or_else(|| panic!("{reply}")).clone()
}

async fn found(socket: &mut RawSocket, query: &str) -> Vec<String> {
    let hits = recall(socket, json!({"query": query})).await;
    let texts = hits.iter().map(|hit| hit["text"].as_str().unwrap());
    texts.map(str::to_owned).collect()
}

fn point(along: f32) -> Vec<f32> {
    let mut point = vec![0.0; 768];
    point[0] = along;
    point
}

#[tokio::test]
async fn a_keyed_fact_is_replaced_and_comes_back_as_the_wire_has_it() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1).await, agent(&hub, 2).await);
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    remember(
        &mut a,
        json!({"text": "Mondays", "key": "deploy", "room": "r"}),
    )
    .await;
    remember(
        &mut a,
        json!({"text": "Tuesdays", "key": "deploy", "room": "r"}),
    )
    .await;
    remember(&mut a, json!({"text": "mine", "key": "deploy"})).await;
    let hits = recall(&mut b, json!({"key": "deploy", "query": "ignored"})).await;
    let ts = hits[0]["ts"].as_i64().unwrap();
    assert!(ts > 1_700_000_000_000);
    assert_eq!(
        hits,
        [
            json!({"text": "Tuesdays", "key": "deploy", "room": "r", "ts": ts, "score": 0.0, "rank": 1,
               "author": keys(1).id().as_str()})
        ]
    );
    assert_eq!(recall(&mut a, json!({"key": "deploy"})).await.len(), 2);
    let private = recall(&mut a, json!({"query": "mine"})).await;
    assert!(private[0].get("room").is_none(), "{private:?}");
}

#[tokio::test]
async fn what_a_person_types_finds_what_was_said() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1).await;
    for (query, text) in [
        ("C++", "C++ builds need clang"),
        ("don't", "we don’t ship on Fridays"),
        ("GB/s", "the link does 3 GB/s."),
        ("@nasa", "credit goes to @NASA"),
        ("日本語", "資料は日本語だけ"),
        ("🚀", "release day🚀"),
        ("\"open quote", "an \"open quote"),
        ("NEAR(clang)", "near the clang"),
        ("résumé", "her RESUME"),
        ("a*b:c^d", "a*b:c^d"),
    ] {
        remember(&mut a, json!({"text": text})).await;
        assert!(
            found(&mut a, query).await.contains(&text.to_owned()),
            "{query}"
        );
    }
    for query in ["", "  ", "\u{0}", "\u{200d}"] {
        assert!(found(&mut a, query).await.is_empty(), "{query:?}");
    }
}

#[tokio::test]
async fn only_members_remember_and_recall_in_a_room() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1).await, agent(&hub, 2).await);
    let code = a.open_channel("r").await;
    remember(&mut a, json!({"text": "zebra", "room": "r"})).await;
    for room in ["r", "nowhere", ""] {
        let fact = json!({"op": "remember", "fact": {"text": "x", "room": room}});
        let refused = b.ask(fact).await;
        assert_eq!(refused["code"], "not_member", "{room}");
        let text = format!("not a member of '{room}'");
        assert_eq!(refused["message"], text);
        for fields in [
            json!({"room": room, "query": "zebra"}),
            json!({"room": room, "key": "k"}),
        ] {
            assert_eq!(ask(&mut b, fields).await["message"], text);
        }
    }
    assert!(found(&mut b, "zebra").await.is_empty());
    b.redeem(&code).await;
    assert_eq!(found(&mut b, "zebra").await, ["zebra"]);
    b.ask(json!({"op": "leave", "room": "r"})).await;
    assert!(found(&mut b, "zebra").await.is_empty(), "its scope ends");
    assert_eq!(
        a.ask(json!({"op": "delete_room", "room": "r"})).await["type"],
        "room_deleted"
    );
    assert!(found(&mut a, "zebra").await.is_empty());
}

#[tokio::test]
async fn the_best_hit_has_the_first_rank_in_every_mode() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1).await;
    for (text, along) in [
        ("okapi okapi", 5.0),
        ("okapi and more words", 1.0),
        ("other", 2.0),
    ] {
        let fact = json!({"op": "remember", "fact": {"text": text}, "embedding": point(along),
                          "embeddingModel": "m"});
        assert_eq!(a.ask(fact).await["ok"], true);
    }
    for (fields, first, best_is_low) in [
        (json!({"query": "okapi"}), "okapi okapi", true),
        (
            json!({"embedding": point(1.0)}),
            "okapi and more words",
            true,
        ),
        (
            json!({"query": "more", "embedding": point(1.0)}),
            "okapi and more words",
            false,
        ),
    ] {
        let hits = recall(&mut a, fields.clone()).await;
        assert_eq!(hits[0]["text"], first, "{fields}");
        let ranks: Vec<u64> = hits
            .iter()
            .map(|hit| hit["rank"].as_u64().unwrap())
            .collect();
        assert_eq!(ranks, (1..=hits.len() as u64).collect::<Vec<_>>());
        let scores: Vec<f64> = hits
            .iter()
            .map(|hit| hit["score"].as_f64().unwrap())
            .collect();
        let in_order = match best_is_low {
            true => scores.is_sorted_by(|a, b| a <= b),
            false => scores.is_sorted_by(|a, b| a >= b),
        };
        assert!(in_order, "{fields}: {scores:?}");
    }
}

#[tokio::test]
async fn no_fact_of_others_ends_a_hybrid_recall() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1).await, agent(&hub, 2).await);
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    // Every alignment of characters of two, three and four bytes around the 128th byte.
    for (n, c) in ["é", "日", "🦓"].iter().enumerate() {
        for shift in 0..4 {
            let text = format!("gnu {}{}", "x".repeat(120 + shift), c.repeat(20));
            let fact = json!({"text": text, "room": "r", "key": format!("{n}-{shift}")});
            let frame = json!({"op": "remember", "fact": fact, "embedding": point(1.0)});
            assert_eq!(b.ask(frame).await["ok"], true);
        }
    }
    let fields = json!({"query": "gnu", "embedding": point(1.0), "limit": 50});
    assert_eq!(recall(&mut a, fields).await.len(), 12);
}

#[tokio::test]
async fn the_facts_of_others_crowd_nobody_out() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1).await, agent(&hub, 2).await);
    let mine = json!({"op": "remember", "fact": {"text": "mine"}, "embedding": point(9.0)});
    a.ask(mine).await;
    for n in 0..60 {
        let fact = json!({"text": format!("theirs {n}")});
        b.ask(json!({"op": "remember", "fact": fact, "embedding": point(1.0)}))
            .await;
    }
    let hits = recall(&mut a, json!({"embedding": point(1.0), "limit": 1})).await;
    assert_eq!(hits[0]["text"], "mine");
    assert_eq!(hits[0]["score"], 8.0);
}

#[tokio::test]
async fn an_embedding_has_768_numbers_that_are_numbers() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1).await;
    for n in [0, 1, 767, 769] {
        let embedding = vec![0.5; n];
        let text = format!("embedding dimension mismatch: got {n}, expected 768");
        for frame in [
            json!({"op": "remember", "fact": {"text": "x"}, "embedding": embedding}),
            json!({"op": "recall", "query": "x", "embedding": embedding}),
        ] {
            assert_eq!(
                a.ask(frame).await,
                json!({"type": "error", "message": text})
            );
        }
    }
    let mut huge: Vec<Value> = vec![0.0.into(); 768];
    huge[7] = json!(1e300);
    for frame in [
        json!({"op": "remember", "fact": {"text": "x"}, "embedding": huge}),
        json!({"op": "recall", "query": "x", "embedding": huge}),
    ] {
        assert_eq!(a.ask(frame).await["code"], "bad_frame");
    }
    assert!(found(&mut a, "x").await.is_empty(), "nothing was stored");
}

#[tokio::test]
async fn quotas_and_caps_are_told() {
    let hub = TestHub::with(|config| config.limits.max_keyed_facts = 1).await;
    let mut a = agent(&hub, 1).await;
    remember(&mut a, json!({"text": "1", "key": "a"})).await;
    let refused = a
        .ask(json!({"op": "remember", "fact": {"text": "2", "key": "b"}}))
        .await;
    assert_eq!(refused["code"], "at_capacity");
    remember(&mut a, json!({"text": "1b", "key": "a"})).await;
    remember(&mut a, json!({"text": "unkeyed"})).await;
    let long = "y".repeat(4097);
    for frame in [
        json!({"op": "remember", "fact": {"text": "x", "key": long}}),
        json!({"op": "remember", "fact": {"text": "x", "room": long}}),
        json!({"op": "remember", "fact": {"text": "x"}, "embeddingModel": long}),
        json!({"op": "remember", "fact": {"text": "x".repeat(1_048_576)}}),
        json!({"op": "recall", "query": "x".repeat(65_537)}),
        json!({"op": "recall", "query": "", "room": long}),
        json!({"op": "recall", "query": "", "key": long}),
    ] {
        assert_eq!(a.ask(frame).await["code"], "too_large");
    }
    remember(&mut a, json!({"text": "x ".repeat(500_000)})).await;
    assert_eq!(
        recall(&mut a, json!({"query": "x ".repeat(32_768)}))
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn hits_are_eight_unless_said_and_fifty_at_most() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1).await;
    for n in 0..60 {
        remember(
            &mut a,
            json!({"text": format!("walrus {n}"), "key": n.to_string()}),
        )
        .await;
    }
    for (limit, hits) in [
        (json!(null), 8),
        (json!(0), 0),
        (json!(3), 3),
        (json!(1000), 50),
    ] {
        let fields = json!({"query": "walrus", "limit": limit});
        assert_eq!(recall(&mut a, fields).await.len(), hits, "{limit}");
    }
}

#[tokio::test]
async fn a_page_of_long_facts_ends_early() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1).await;
    for n in 0..12 {
        let text = format!("narwhal {n} {}", "z".repeat(1_000_000));
        remember(&mut a, json!({"text": text})).await;
    }
    let hits = recall(&mut a, json!({"query": "narwhal", "limit": 50})).await;
    assert_eq!(hits.len(), 8);
}
