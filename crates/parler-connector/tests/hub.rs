//! The client against a real hub in this process.
#![allow(clippy::unwrap_used)] // in a test's own functions too

use std::time::{Duration, Instant};

use parler_connector::services::{Claimed, Held};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Outgoing, Read, Redeemed};
use parler_identity::message::{SigState, bound_to_room, check};
use parler_protocol::{
    ClientFrame, Dispatch, ErrorCode, Fact, HandoffRef, Invite, Part, Recall, RoomKind, RoomOp,
    ServerFrame, StoredMessage, Target, TaskStatus, TypedPart,
};
use parler_testkit::{SOON, TestHub, keys};
use tokio::time::timeout;

const UNREAD: Read = Read::Unread { limit: 100 };

async fn agent(hub: &TestHub, n: u8, name: &str) -> Client {
    let options = ClientOptions::new(Endpoint::new(hub.url()), keys(n), name);
    Client::connect(options).await.unwrap()
}

fn channel(room: &str) -> Invite {
    Invite {
        kind: RoomKind::Channel,
        room: Some(room.into()),
        ttl_secs: None,
        max_uses: None,
        require_approval: false,
    }
}

/// Two agents in room `release-train`.
async fn pair(hub: &TestHub) -> (Client, Client) {
    let planner = agent(hub, 1, "planner").await;
    let reviewer = agent(hub, 2, "reviewer").await;
    let invited = planner.invite(channel("release-train")).await.unwrap();
    for code in [&invited.code, &invited.url] {
        let joined = reviewer.redeem(code).await.unwrap();
        assert!(matches!(joined, Redeemed::Joined(joined) if joined.room == "release-train"));
    }
    (planner, reviewer)
}

fn seqs(messages: &[StoredMessage]) -> Vec<i64> {
    messages.iter().map(|m| m.seq).collect()
}

#[tokio::test]
async fn a_turn_passes_from_one_agent_to_the_other_and_back() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    assert!(reviewer.subscribe().await.unwrap());
    let waiting = tokio::spawn({
        let reviewer = reviewer.clone();
        async move { reviewer.wait("release-train", 10, SOON).await }
    });
    let handoff = HandoffRef {
        next: "review the diff".into(),
        summary: Some("tests are green".into()),
        to: Some("Reviewer".into()),
        bundle: None,
    };
    let sent = planner
        .send(Outgoing::handoff("release-train", &handoff))
        .await
        .unwrap();
    let pulled = waiting.await.unwrap().unwrap();
    assert_eq!(seqs(&pulled.messages), [sent.seq]);

    let message = &pulled.messages[0];
    let got = HandoffRef::find(&message.parts).unwrap();
    assert!(got.is_for(reviewer.name(), reviewer.role()) && !got.is_for("planner", None));
    let (state, sig) = check(message);
    assert_eq!(state, SigState::Valid);
    assert!(bound_to_room(
        message,
        &sig.unwrap(),
        reviewer.id().as_str()
    ));
    assert_eq!(message.from.id, planner.id().as_str());
    reviewer
        .commit("release-train", pulled.cursor)
        .await
        .unwrap();

    let mut answer = Outgoing::text("release-train", "looks good");
    answer.reply_to = Some(message.id.clone());
    reviewer.send(answer).await.unwrap();
    // The own handoff is unread too: what is read is the log.
    let pulled = planner.pull("release-train", UNREAD).await.unwrap();
    assert_eq!(pulled.messages.len(), 2);
    assert_eq!(pulled.messages[1].reply_to.as_deref(), Some(&*sent.id));
}

#[tokio::test]
async fn reading_moves_nothing_and_a_commit_does() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    for n in 0..3 {
        let text = Outgoing::text("release-train", format!("step {n}"));
        planner.send(text).await.unwrap();
    }
    let first = reviewer.pull("release-train", UNREAD).await.unwrap();
    let again = reviewer.pull("release-train", UNREAD).await.unwrap();
    assert_eq!((first.messages.len(), &again), (3, &first));
    let second = first.messages[1].seq;
    reviewer.commit("release-train", second).await.unwrap();

    // Another client of the same agent goes on from there.
    let elsewhere = agent(&hub, 2, "reviewer").await;
    let rest = elsewhere.pull("release-train", UNREAD).await.unwrap();
    assert_eq!(seqs(&rest.messages), [first.messages[2].seq]);
    let all = Read::Since { seq: 0, limit: 2 };
    let all = elsewhere.pull("release-train", all).await.unwrap();
    assert_eq!(seqs(&all.messages), seqs(&first.messages[..2]));

    // Beyond the head nothing is swallowed.
    elsewhere.commit("release-train", i64::MAX).await.unwrap();
    assert_eq!(
        elsewhere
            .pull("release-train", UNREAD)
            .await
            .unwrap()
            .messages
            .len(),
        1
    );
    let room = &reviewer.rooms().await.unwrap()[0];
    assert_eq!((room.unread, room.members), (1, 2));
}

#[tokio::test]
async fn everything_goes_on_after_a_restart_of_the_hub() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    assert!(reviewer.subscribe().await.unwrap());
    planner
        .send(Outgoing::text("release-train", "before"))
        .await
        .unwrap();
    let before = reviewer.wait("release-train", 10, SOON).await.unwrap();
    reviewer
        .commit("release-train", before.cursor)
        .await
        .unwrap();
    assert_eq!(reviewer.next_push().await.seq, before.cursor);

    let waiting = tokio::spawn({
        let reviewer = reviewer.clone();
        async move { reviewer.wait("release-train", 10, SOON).await }
    });
    let hub = hub.restart().await;
    let sent = planner
        .send(Outgoing::text("release-train", "after"))
        .await
        .unwrap();
    let after = waiting.await.unwrap().unwrap();
    assert_eq!(seqs(&after.messages), [sent.seq], "and nothing twice");
    // Pushes come again by themselves.
    let third = planner
        .send(Outgoing::text("release-train", "third"))
        .await
        .unwrap();
    let pushed = timeout(SOON, async {
        loop {
            if reviewer.next_push().await.seq == third.seq {
                break;
            }
        }
    });
    pushed.await.expect("a push after the reconnect");
    hub.stop().await;
}

#[tokio::test]
async fn the_same_key_is_stored_once() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    let frame = ClientFrame::Send(parler_protocol::Send {
        target: Target::Room {
            room: "release-train".into(),
        },
        parts: vec![parler_protocol::Part::text("once")],
        mentions: None,
        reply_to: None,
        client_id: Some("0199c2f0-0000-7000-8000-000000000001".into()),
        deadline_secs: None,
    });
    let first = planner.request(frame.clone()).await.unwrap();
    assert_eq!(planner.request(frame).await.unwrap(), first);
    let pulled = reviewer.pull("release-train", UNREAD).await.unwrap();
    assert_eq!(pulled.messages.len(), 1);
    assert_eq!(
        check(&pulled.messages[0]).0,
        SigState::Unsigned,
        "a raw send"
    );
}

#[tokio::test]
async fn without_a_subscription_a_wait_parks_and_nothing_waits_behind_it() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    let waiting = tokio::spawn({
        let reviewer = reviewer.clone();
        async move { reviewer.wait("release-train", 10, SOON).await }
    });
    for _ in 0..20 {
        let started = Instant::now();
        reviewer.ping().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2));
        tokio::task::yield_now().await;
    }
    let sent = planner
        .send(Outgoing::text("release-train", "wake up"))
        .await
        .unwrap();
    assert_eq!(seqs(&waiting.await.unwrap().unwrap().messages), [sent.seq]);
}

#[tokio::test]
async fn a_cancelled_wait_leaves_everything_unread() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    let short = Duration::from_millis(100);
    let cancelled = timeout(short, reviewer.wait("release-train", 10, SOON)).await;
    assert!(cancelled.is_err());
    let sent = planner
        .send(Outgoing::text("release-train", "hi"))
        .await
        .unwrap();
    let unread = reviewer.wait("release-train", 10, SOON).await.unwrap();
    assert_eq!(seqs(&unread.messages), [sent.seq]);
    assert_eq!(reviewer.rooms().await.unwrap()[0].unread, 1);
}

#[tokio::test]
async fn a_hub_with_a_secret_takes_those_who_know_it_and_proves_its_key() {
    let hub = TestHub::with(|config| config.join_secret = Some("sesame".to_owned().into())).await;
    let mut options = ClientOptions::new(Endpoint::new(hub.url()), keys(1), "planner");
    let refused = Client::connect(options.clone()).await.unwrap_err();
    assert!(refused.to_string().starts_with("authentication failed: "));
    assert!(refused.to_string().contains("join secret"), "{refused}");
    options.endpoint.secret = Some("wrong".to_owned().into());
    let refused = Client::connect(options.clone()).await.unwrap_err();
    assert!(matches!(
        refused,
        ClientError::SecretRefused { sent: true, .. }
    ));
    options.endpoint.secret = Some("sesame".to_owned().into());
    options.endpoint.hub_key = Some(hub.state().key().id().to_string());
    Client::connect(options.clone()).await.unwrap();
    options.endpoint.hub_key = Some(keys(9).id().to_string());
    let refused = Client::connect(options).await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::WrongHub { got: Some(got), .. } if *got == hub.state().key().id().as_str())
    );
}

#[tokio::test]
async fn refusals_of_the_hub_keep_their_codes() {
    let hub = TestHub::start().await;
    let planner = agent(&hub, 1, "planner").await;
    let code = |error: ClientError| error.code().cloned();
    let refused = planner.pull("nowhere", UNREAD).await.unwrap_err();
    assert_eq!(code(refused), Some(ErrorCode::NotMember));
    let refused = planner.wait("nowhere", 10, SOON).await.unwrap_err();
    assert_eq!(code(refused), Some(ErrorCode::NotMember));
    let refused = planner.redeem("NOSUCHXX").await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("invalid or unknown invite code")
    );
    assert_eq!(code(refused), Some(ErrorCode::InvalidInvite));
    let large = Outgoing::text("nowhere", "x".repeat(1_100_000));
    let refused = planner.send(large).await.unwrap_err();
    assert_eq!(code(refused), Some(ErrorCode::TooLarge));

    let invited = planner.invite(channel("r")).await.unwrap();
    assert_eq!(invited.room, "r");
    let roster = ClientFrame::Roster(RoomOp { room: "r".into() });
    let ServerFrame::Roster(roster) = planner.request(roster).await.unwrap() else {
        panic!("a roster");
    };
    assert_eq!(roster.entries[0].name, "planner");
    assert_eq!(planner.roster("r").await.unwrap().len(), 1);
}

#[tokio::test]
async fn facts_are_remembered_and_recalled() {
    let hub = TestHub::start().await;
    let (planner, reviewer) = pair(&hub).await;
    let fact = |key: Option<&str>, text: &str, room: Option<&str>| Fact {
        key: key.map(str::to_owned),
        text: text.to_owned(),
        room: room.map(str::to_owned),
    };
    let room = Some("release-train");
    planner
        .remember(fact(Some("k"), "old", room))
        .await
        .unwrap();
    planner
        .remember(fact(Some("k"), "ship it 🚀", room))
        .await
        .unwrap();
    planner
        .remember(fact(None, "private 🚀", None))
        .await
        .unwrap();
    let mut point = vec![0.0; 768];
    point[3] = 1.0;
    let near = fact(None, "nearby", room);
    planner
        .remember_at(near, Some(point.clone()), Some("m".into()))
        .await
        .unwrap();
    let recall = Recall {
        query: "🚀".into(),
        room: None,
        limit: None,
        embedding: None,
        key: None,
    };
    let hits = reviewer.recall(recall.clone()).await.unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(
        (hits[0].text.as_str(), hits[0].rank),
        ("ship it 🚀", Some(1))
    );
    assert_eq!(hits[0].author, planner.id().as_str());
    let by_place = Recall {
        query: String::new(),
        embedding: Some(point),
        ..recall.clone()
    };
    assert_eq!(reviewer.recall(by_place).await.unwrap()[0].text, "nearby");
    let foreign = Recall {
        room: Some("elsewhere".into()),
        ..recall
    };
    let refused = reviewer.recall(foreign).await.unwrap_err();
    assert_eq!(refused.code(), Some(&ErrorCode::NotMember));
}

#[tokio::test]
async fn work_is_taken_by_one_and_ended_by_its_take() {
    let hub = TestHub::start().await;
    let (a, b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let asks = agent(&hub, 3, "asks").await;
    let room = a.serve("review").await.unwrap();
    assert_eq!(b.serve("review").await.unwrap(), room);
    let target = Target::Service {
        service: "review".into(),
    };
    let role = "review".into();
    let parts = vec![Part::text("branch auth"), Dispatch { role }.to_part()];
    let sent = asks.send(Outgoing::new(target, parts)).await.unwrap();

    let waits = b.queue(&room, "review", None).await.unwrap();
    assert_eq!(waits[0].id, sent.id);
    let (state, sig) = check(&waits[0]);
    let bound = bound_to_room(&waits[0], &sig.unwrap(), b.id().as_str());
    assert!(state == SigState::Valid && bound, "fit to be acted on");

    let Claimed::Won(held) = a.claim_work(&room, &sent.id, Some(60)).await.unwrap() else {
        panic!("nobody else wanted it");
    };
    match b.claim_work(&room, &sent.id, None).await.unwrap() {
        Claimed::Lost {
            holder: Some(holder),
        } => assert_eq!(holder.id, a.id().to_string()),
        other => panic!("{other:?}"),
    }
    let Claimed::Won(renewed) = a.renew_work(&held, Some(3600)).await.unwrap() else {
        panic!("it is still a's");
    };
    assert!(renewed.take == held.take && renewed.lease_until > held.lease_until);
    let stale = Held {
        take: held.take.map(|take| take + 1),
        ..held.clone()
    };
    let lost = a.renew_work(&stale, None).await.unwrap();
    assert_eq!(lost, Claimed::Lost { holder: None });

    let done = TaskStatus::Done;
    let end = async |who: &Client, take| {
        who.complete_work(&room, &sent.id, done, take)
            .await
            .unwrap()
    };
    assert!(!end(&b, None).await && !end(&a, stale.take).await);
    assert!(end(&a, held.take).await);
    assert!(!end(&a, held.take).await, "for good");
}
