//! What the sink hears, and when.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parler_protocol::{RoomName, Seq};
use tokio::sync::mpsc;

use super::story::{ALL_OF_IT, Story, agent, together};
use crate::{CommitSink, Event, NewInvite, ReadFrom};

/// How long a sink waits for the story to look around.
const LOOK: Duration = Duration::from_secs(20);

pub(super) async fn an_append_and_a_join_are_told_once(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    let joined = |who: &parler_protocol::AgentId| format!("{} joined channel r", who.short());
    assert_eq!(s.heard.take(), [joined(&a)]);
    s.open("r", &a).await;
    assert_eq!(s.heard.take(), [""; 0]);
    s.redeem(code, &b).await;
    assert_eq!(s.heard.take(), [joined(&b)]);
    let entry = s.say("r", &b).await;
    let told = s.heard.take_entries();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].json, told[0].seq), (&entry.json, entry.seq));
    assert_eq!((&told[0].author, &told[0].room), (&b, &entry.room));
}

pub(super) async fn refusals_and_repeats_are_told_to_nobody(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    let gated = NewInvite {
        gated: true,
        ..s.new_invite(&a, "r")
    };
    let code = s.mint(gated).await;
    s.append(s.keyed("r", &a, "key", 1)).await;
    s.heard.take();
    s.store.append(s.keyed("r", &a, "key", 1)).await.unwrap();
    s.store.append(s.keyed("r", &a, "key", 2)).await.unwrap();
    s.store.append(s.draft("r", &b)).await.unwrap();
    s.store.invite(s.new_invite(&b, "r")).await.unwrap();
    s.redeem(code, &a).await;
    s.redeem(code, &b).await;
    let waits = format!("{} waits for {} in r", b.short(), a.short());
    assert_eq!(s.heard.take(), [format!("{} asked r", b.short()), waits]);
    s.redeem(code, &b).await;
    s.redeem([9; 32], &b).await;
    s.store.hello(&b, "ben", None, 1).await.unwrap();
    s.read("r", &a, ReadFrom::Cursor { ack: None }).await;
    s.advance("r", &a, Seq(1)).await;
    assert_eq!(s.heard.take(), [""; 0]);
}

pub(super) async fn events_come_in_the_order_of_seq(s: &mut Story) {
    const ROUNDS: usize = 30;
    let a = agent(0);
    let rooms = ["r0", "r1", "r2", "r3"];
    for room in rooms {
        s.open(room, &a).await;
    }
    s.heard.take();
    let mut answered = Vec::new();
    for _ in 0..ROUNDS {
        let said = together(rooms.map(|room| s.store.append(s.draft(room, &a)))).await;
        answered.extend(said.into_iter().map(Result::unwrap));
    }
    let told = s.heard.take_entries();
    assert_eq!(told.len(), ROUNDS * rooms.len());
    assert_eq!(told.len(), answered.len());
    assert!(told.is_sorted_by(|a, b| a.seq < b.seq));
}

/// A sink that stops the store until the story has looked around.
struct Stop {
    told: mpsc::UnboundedSender<Vec<Event>>,
    go: Mutex<Receiver<()>>,
}

impl CommitSink for Stop {
    fn committed(&self, events: &[Event]) {
        if self.told.send(events.to_vec()).is_ok() {
            // When nobody says go, the story has failed already.
            let _ = self.go.lock().unwrap().recv_timeout(LOOK);
        }
    }
}

fn stop() -> (
    Arc<Stop>,
    mpsc::UnboundedReceiver<Vec<Event>>,
    SyncSender<()>,
) {
    let (told, hears) = mpsc::unbounded_channel();
    let (says_go, go) = sync_channel(1);
    let go = Mutex::new(go);
    (Arc::new(Stop { told, go }), hears, says_go)
}

pub(super) async fn nothing_precedes_the_commit_and_no_answer_precedes_the_event(s: &mut Story) {
    let (a, room) = (agent(0), RoomName::new("r"));
    s.open("r", &a).await;
    let (sink, mut told, go) = stop();
    s.reopen_with(sink).await;
    for n in 1..=3_usize {
        let append = s.store.append(s.draft("r", &a));
        tokio::pin!(append);
        let events = tokio::select! {
            biased;
            events = told.recv() => events.unwrap(),
            _ = &mut append => panic!("answered before the sink was told"),
        };
        let [Event::Appended(entry)] = events.as_slice() else {
            panic!("{events:?}");
        };
        // The store stands still inside the sink: whoever reads now already sees the message, and
        // its author has no answer yet.
        let all = ReadFrom::Since(Seq(0));
        let page = s.store.read(&room, &a, all, ALL_OF_IT).await.unwrap();
        let read = page.unwrap().entries;
        assert_eq!(read.len(), n);
        assert_eq!(read.last().map(|e| &e.json), Some(&entry.json));
        let rooms = s.store.rooms(&a).await.unwrap();
        assert_eq!(usize::try_from(rooms[0].unread), Ok(n));
        let early = tokio::select! {
            biased;
            _ = &mut append => true,
            () = std::future::ready(()) => false,
        };
        assert!(!early, "answered while the sink was being told");
        go.send(()).unwrap();
        append.await.unwrap();
    }
    // Whatever follows needs no looking around.
    drop(told);
}
