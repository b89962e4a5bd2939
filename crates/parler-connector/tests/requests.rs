//! One request, one reply: their order, what comes between, and what is no reply at all.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Conn, FakeHub, PATIENCE, delivery, error, keys, message, pulled, usual};
use parler_connector::{
    Client, ClientError, ClientOptions, Endpoint, Outgoing, Read, Redeemed, Timeouts,
};
use parler_identity::message::{SigState, check};
use parler_protocol::limits::MAX_TEXT_FRAME_BYTES;
use parler_protocol::{
    ClientFrame, ErrorCode, HandoffRef, PutBlob, ServerFrame, StoredMessage, Target,
};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Bytes, Message};

fn options(hub: &FakeHub) -> ClientOptions {
    let mut options = ClientOptions::new(Endpoint::new(hub.url()), keys(1), "planner");
    options.timeouts = Timeouts {
        connect: Duration::from_millis(1000),
        request: Duration::from_millis(2000),
    };
    options
}

async fn client_of(hub: &FakeHub) -> Client {
    Client::connect(options(hub)).await.unwrap()
}

#[tokio::test]
async fn replies_keep_their_order_with_deliveries_between() {
    let hub = FakeHub::answering(|_, frame| {
        if frame["op"] == "roster" {
            let n: i64 = frame["room"].as_str().unwrap().parse().unwrap();
            let roster = json!({"type":"roster","room":frame["room"],"entries":[]});
            vec![delivery(2 * n), roster, delivery(2 * n + 1)]
        } else {
            vec![usual(frame)]
        }
    })
    .await;
    let client = client_of(&hub).await;
    assert!(client.subscribe().await.unwrap());
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let client = client.clone();
        calls.spawn(async move {
            let frame = ClientFrame::Roster(parler_protocol::RoomOp {
                room: n.to_string(),
            });
            match client.request(frame).await.unwrap() {
                ServerFrame::Roster(roster) => assert_eq!(roster.room, n.to_string()),
                other => panic!("{other:?}"),
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    let mut pushed = Vec::new();
    for _ in 0..40 {
        let push = tokio::time::timeout(PATIENCE, client.next_push()).await;
        pushed.push(push.expect("every delivery is there").seq);
    }
    pushed.sort_unstable();
    assert_eq!(pushed, (0..40).collect::<Vec<_>>());
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn a_cancelled_call_does_not_give_its_reply_to_the_next() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        let first = conn.hear().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        conn.say(json!({"type":"roster","room":first["room"],"entries":[]}))
            .await;
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    let client = client_of(&hub).await;
    let short = Duration::from_millis(10);
    let cancelled = tokio::time::timeout(short, client.roster("first")).await;
    assert!(cancelled.is_err());
    assert_eq!(client.rooms().await.unwrap(), vec![]);
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn an_error_frame_is_an_answer_and_no_disconnect() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("roster") => vec![error(Some("not_member"), "not a member of 'r'\u{1b}[2J")],
        Some("redeem") => vec![error(None, "invalid or unknown invite code")],
        _ => vec![usual(frame)],
    })
    .await;
    let client = client_of(&hub).await;
    let refused = client.roster("r").await.unwrap_err();
    assert_eq!(refused.code(), Some(&ErrorCode::NotMember));
    assert_eq!(refused.to_string(), "not a member of 'r'[2J");
    let refused = client.redeem("NOSUCHXX").await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { code: None, .. }));
    client.ping().await.unwrap();
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn what_a_later_hub_sends_is_ignored() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            conn.say(json!({"type":"from_the_future","x":[1]})).await;
            conn.send(Message::Binary(Bytes::from_static(b"\0\xff")))
                .await;
            conn.send(Message::Ping(Bytes::from_static(b"?"))).await;
            conn.say(json!({"type":"delivery","message":{"parts":[{"kind":"hologram"}]}}))
                .await;
            let mut reply = usual(&frame);
            reply["more"] = json!({"deep": true});
            conn.say(reply).await;
        }
    })
    .await;
    let client = client_of(&hub).await;
    client.ping().await.unwrap();
    client.rooms().await.unwrap();
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_fails_its_own_call_only() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("rooms") => vec![json!({"type":"rooms","rooms":"many"})],
        _ => vec![usual(frame)],
    })
    .await;
    let client = client_of(&hub).await;
    let failed = client.rooms().await.unwrap_err();
    assert!(
        matches!(&failed, ClientError::Unexpected { what: "rooms", .. }),
        "{failed:?}"
    );
    client.ping().await.unwrap();
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn garbage_and_a_reply_to_something_else_end_the_connection_and_no_more() {
    for garbage in [
        Message::text("not json"),
        Message::text("[1]"),
        Message::text(r#"{"type":"pong"}"#),
    ] {
        let sent = garbage.clone();
        let hub = FakeHub::start(move |mut conn: Conn| {
            let garbage = sent.clone();
            async move {
                conn.login().await;
                while let Some(frame) = conn.hear().await {
                    if conn.n == 0 {
                        conn.send(garbage.clone()).await;
                    } else {
                        conn.say(usual(&frame)).await;
                    }
                }
            }
        })
        .await;
        let client = client_of(&hub).await;
        let failed = client.rooms().await.unwrap_err();
        assert!(
            matches!(&failed, ClientError::Unexpected { .. }),
            "{garbage:?}: {failed:?}"
        );
        assert_eq!(client.rooms().await.unwrap(), vec![], "on a new connection");
        assert_eq!(hub.connections(), 2);
    }
}

#[tokio::test]
async fn a_reply_to_nothing_is_not_taken_for_the_next_one() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        let ping = conn.hear().await.unwrap();
        conn.say(usual(&ping)).await;
        conn.say(error(Some("timeout"), "you are slow")).await;
        conn.say(delivery(7)).await;
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    let client = client_of(&hub).await;
    client.ping().await.unwrap();
    assert_eq!(client.next_push().await.seq, 7, "the stray frame is read");
    client.rooms().await.unwrap();
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn a_room_of_large_messages_is_read_in_smaller_goes() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            if frame["limit"].as_u64().unwrap() > 10 {
                // Announced, not sent: the client must not wait for it.
                let huge = Bytes::from(vec![b' '; 29 * 1024 * 1024]);
                conn.send(Message::Text(huge.try_into().unwrap())).await;
            } else {
                conn.say(pulled(&[message(5)], 5)).await;
            }
        }
    })
    .await;
    let client = client_of(&hub).await;
    let read = client.pull("r", Read::Since { seq: 0, limit: 200 }).await;
    assert_eq!(read.unwrap().cursor, 5);
    let limits: Vec<_> = hub.of("pull").iter().map(|p| p["limit"].clone()).collect();
    assert_eq!(limits, [json!(200), json!(25), json!(3)]);
}

#[tokio::test]
async fn what_is_too_large_for_any_hub_is_not_sent() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let client = client_of(&hub).await;
    let failed = client
        .send(Outgoing::text("r", "x".repeat(MAX_TEXT_FRAME_BYTES)))
        .await
        .unwrap_err();
    assert!(
        matches!(&failed, ClientError::TooLarge { what: "send", limit, .. } if *limit == MAX_TEXT_FRAME_BYTES)
    );
    client.ping().await.unwrap();
    assert_eq!((hub.of("send").len(), hub.connections()), (0, 1));
}

#[tokio::test]
async fn exchanges_of_more_than_one_frame_are_not_single_requests() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let client = client_of(&hub).await;
    let frame = ClientFrame::PutBlob(PutBlob {
        target: Target::Room { room: "r".into() },
        sha256: "0".repeat(64),
        size: 1,
        media_type: None,
        chunks: None,
        offset: None,
    });
    let failed = client.request(frame).await.unwrap_err();
    assert_eq!(failed, ClientError::NotASingleRequest { what: "put_blob" });
}

#[tokio::test]
async fn a_sent_message_is_validly_signed_by_its_author() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let client = client_of(&hub).await;
    let handoff = HandoffRef {
        next: "review the diff".into(),
        summary: None,
        to: Some("reviewer".into()),
        bundle: None,
    };
    let mut out = Outgoing::handoff("r", &handoff);
    out.reply_to = Some("m0".into());
    out.mentions = Some(vec!["reviewer".into()]);
    out.deadline_secs = Some(60);
    client.send(out).await.unwrap();

    let sent = &hub.of("send")[0];
    assert_eq!(sent["target"], json!({"kind":"room","room":"r"}));
    assert_eq!(
        (&sent["replyTo"], &sent["deadlineSecs"]),
        (&json!("m0"), &json!(60))
    );
    assert_eq!(sent["mentions"], json!(["reviewer"]));
    let stored: StoredMessage = serde_json::from_value(json!({
        "seq":1,"id":"m1","room":"r","ts":1,"parts":sent["parts"],"replyTo":"m0",
        "from":{"id":client.id().as_str(),"name":"planner"},
    }))
    .unwrap();
    assert_eq!(check(&stored).0, SigState::Valid);
}

#[tokio::test]
async fn a_short_rate_limit_is_sat_out_with_the_same_key_and_a_long_one_is_told() {
    let limited = |ms: u64| {
        let mut frame = error(Some("rate_limited"), "slow down");
        frame["retryAfterMs"] = json!(ms);
        frame
    };
    let tries = AtomicUsize::new(0);
    let hub = FakeHub::answering(move |_, frame| match frame["op"].as_str() {
        Some("send") if tries.fetch_add(1, Ordering::SeqCst) < 2 => vec![limited(60)],
        Some("rooms") => vec![limited(10)],
        _ => vec![usual(frame)],
    })
    .await;
    let client = client_of(&hub).await;
    let started = Instant::now();
    assert_eq!(client.send(Outgoing::text("r", "hi")).await.unwrap().seq, 1);
    assert!(started.elapsed() >= Duration::from_millis(120));
    let sends = hub.of("send");
    assert_eq!(sends.len(), 3);
    assert!(
        sends.iter().all(|s| s == &sends[0]),
        "same key, same signature"
    );
    assert!(client.rooms().await.is_err(), "only sends are sat out");

    let hub = FakeHub::answering(move |_, _| vec![limited(60_000)]).await;
    let client = client_of(&hub).await;
    let refused = client.send(Outgoing::text("r", "hi")).await.unwrap_err();
    assert_eq!(refused.code(), Some(&ErrorCode::RateLimited));
    assert_eq!(refused.hint().unwrap(), "try again in 60 s");
    assert_eq!(hub.of("send").len(), 1);
}

#[tokio::test]
async fn reading_acknowledges_only_what_was_committed() {
    let hub = FakeHub::answering(|_, frame| match frame["ack"].as_i64() {
        // A head of 7: what is beyond it changes nothing.
        Some(ack) if frame["limit"] == 0 => vec![pulled(&[], if ack > 7 { 5 } else { ack.max(5) })],
        Some(6) => vec![pulled(&[message(7)], 7)],
        _ => vec![pulled(&[message(6), message(7)], 7)],
    })
    .await;
    let client = client_of(&hub).await;
    let unread = Read::Unread { limit: 10 };
    for _ in 0..2 {
        assert_eq!(client.pull("r", unread).await.unwrap().messages.len(), 2);
    }
    client.commit("r", 6).await.unwrap();
    client.pull("r", unread).await.unwrap();
    client.commit("r", 4).await.unwrap();
    client.pull("r", unread).await.unwrap();
    client.commit("r", 999).await.unwrap();
    client.pull("r", unread).await.unwrap();
    client.pull("other", unread).await.unwrap();
    client
        .pull("r", Read::Since { seq: 2, limit: 3 })
        .await
        .unwrap();

    let pulls = hub.of("pull");
    let acks: Vec<_> = pulls.iter().map(|p| p["ack"].clone()).collect();
    let expected = [0, 0, 6, 6, 4, 6, 999, 6, 0].map(Value::from);
    assert_eq!(acks[..9], expected);
    assert!(acks[9].is_null() && pulls[9]["since"] == 2 && pulls[9]["limit"] == 3);
}

#[tokio::test]
async fn a_commit_that_a_restored_hub_has_lost_is_not_repeated_to_it() {
    let hub = FakeHub::answering(|_, frame| match frame["limit"].as_i64() {
        Some(0) => vec![pulled(&[], 50)],
        // It was put back to an earlier state: this one is new.
        _ => vec![pulled(&[message(3)], 3)],
    })
    .await;
    let client = client_of(&hub).await;
    client.commit("r", 50).await.unwrap();
    for _ in 0..2 {
        let unread = client.pull("r", Read::Unread { limit: 10 }).await.unwrap();
        assert_eq!(unread.cursor, 3);
    }
    let acks: Vec<_> = hub.of("pull").iter().map(|p| p["ack"].clone()).collect();
    assert_eq!(acks, [50, 50, 2].map(Value::from));
}

#[tokio::test]
async fn each_call_sends_its_op_and_reads_its_reply() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("redeem") if frame["code"] == "WAITINGX" => {
            vec![json!({"type":"join_pending","room":"r"})]
        }
        Some("redeem") => vec![json!({"type":"joined","room":"r","kind":"channel"})],
        _ => vec![usual(frame)],
    })
    .await;
    let mut options = options(&hub);
    options.wakes = false;
    let client = Client::connect(options).await.unwrap();
    let Redeemed::Joined(joined) = client.redeem("A3KELDJR").await.unwrap() else {
        panic!("joined");
    };
    assert_eq!(joined.room, "r");
    let pending = client.redeem("WAITINGX").await.unwrap();
    assert_eq!(pending, Redeemed::Pending { room: "r".into() });
    let invite = parler_protocol::Invite {
        kind: parler_protocol::RoomKind::Channel,
        room: Some("r".into()),
        ttl_secs: None,
        max_uses: None,
        require_approval: false,
    };
    assert_eq!(client.invite(invite).await.unwrap().code, "A3KELDJR");
    assert_eq!(client.roster("r").await.unwrap(), vec![]);
    let attention = parler_protocol::Attention::Focus;
    client
        .presence("working", Some("tests"), Some(attention))
        .await
        .unwrap();
    client.set_attention(attention).await.unwrap();
    client.subscribe().await.unwrap();

    assert_eq!(
        hub.of("presence")[0],
        json!({"op":"presence","status":"working","activity":"tests","attention":"focus"})
    );
    assert_eq!(
        hub.of("subscribe")[0],
        json!({"op":"subscribe","wakes":false})
    );
}

#[tokio::test]
async fn a_full_inbox_keeps_the_newest() {
    let hub = FakeHub::answering(|_, frame| {
        let mut frames = vec![usual(frame)];
        if frame["op"] == "rooms" {
            frames.splice(0..0, (1..=1030).map(delivery));
        }
        frames
    })
    .await;
    let client = client_of(&hub).await;
    client.rooms().await.unwrap();
    assert_eq!(client.dropped_pushes(), 6);
    assert_eq!(client.next_push().await.seq, 7);
}

#[tokio::test]
async fn notices_are_apart_from_messages() {
    let hub = FakeHub::answering(|_, frame| {
        vec![
            json!({"type":"guard","room":"r","seq":3,"reason":"held"}),
            delivery(4),
            usual(frame),
        ]
    })
    .await;
    let client = client_of(&hub).await;
    client.ping().await.unwrap();
    assert_eq!(client.next_push().await.seq, 4);
    assert!(matches!(client.next_notice().await, ServerFrame::Guard(guard) if guard.seq == 3));
}

#[tokio::test]
async fn messages_of_another_room_are_not_taken_for_ones_of_the_room_that_was_asked_for() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("pull") => {
            let mut other = message(2);
            other["room"] = json!("elsewhere");
            vec![pulled(&[message(1), other], 2)]
        }
        _ => vec![usual(frame)],
    })
    .await;
    let client = client_of(&hub).await;
    let unread = Read::Unread { limit: 9 };
    let since = Read::Since { seq: 0, limit: 9 };
    for read in [unread, since] {
        let page = client.pull("r", read).await.unwrap();
        let seqs: Vec<_> = page.messages.iter().map(|m| m.seq).collect();
        assert_eq!((seqs, page.cursor), (vec![1], 2));
    }
    let waited = client.wait("r", 9, Duration::from_secs(1)).await.unwrap();
    assert_eq!(waited.messages.len(), 1);
}

#[tokio::test]
async fn what_a_shell_would_run_does_not_come_out_of_a_reply() {
    let evil = "a;touch${IFS}/tmp/x;b";
    let hub = FakeHub::answering(move |_, frame| {
        let mut reply = usual(&match frame["op"].as_str() {
            Some("redeem") => json!({"op":"ping"}),
            _ => frame.clone(),
        });
        match frame["op"].as_str() {
            Some("invite") => {
                let field = frame["room"].as_str().unwrap();
                reply[field] = json!(evil);
            }
            Some("send") => reply["room"] = json!(evil),
            Some("redeem") => reply = json!({"type":"joined","room":evil,"kind":"channel"}),
            Some("rooms") => {
                let room = |name| json!({"name":name,"kind":"channel","members":1,"unread":0});
                reply["rooms"] = json!([room(evil), room("team")]);
            }
            _ => {}
        }
        vec![reply]
    })
    .await;
    let client = client_of(&hub).await;
    let refused = |error: ClientError| {
        assert!(matches!(error, ClientError::Unexpected { .. }), "{error:?}");
        assert!(!error.to_string().contains("touch"), "{error}");
    };
    for field in ["code", "url", "room"] {
        let invite = parler_protocol::Invite {
            kind: parler_protocol::RoomKind::Channel,
            room: Some(field.to_owned()),
            ttl_secs: None,
            max_uses: None,
            require_approval: false,
        };
        refused(client.invite(invite).await.unwrap_err());
    }
    refused(client.redeem("A3KELDJR").await.unwrap_err());
    refused(client.send(Outgoing::text("r", "hi")).await.unwrap_err());
    let rooms = client.rooms().await.unwrap();
    assert_eq!((rooms.len(), rooms[0].name.as_str()), (1, "team"));
}
