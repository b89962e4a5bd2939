//! Health and the end.

use parler_protocol::{RoomName, Seq};

use super::story::{Story, T0, agent};
use crate::{ReadFrom, StoreError};

pub(super) async fn a_store_answers_pings_until_it_is_closed(s: &mut Story) {
    let (a, room) = (agent(0), RoomName::new("r"));
    s.open("r", &a).await;
    s.store.ping().await.unwrap();
    s.store.close().await.unwrap();
    let all = ReadFrom::Since(Seq(0));
    let closed = [
        s.store.ping().await.err(),
        s.store.hello(&a, "ann", None, T0).await.err(),
        s.store.append(s.draft("r", &a)).await.err(),
        s.store.advance(&room, &a, Seq(1), 0).await.err(),
        s.store.read(&room, &a, all, 1).await.err(),
        s.store.rooms(&a).await.err(),
    ];
    for error in closed {
        assert!(matches!(error, Some(StoreError::Closed)), "{error:?}");
    }
    s.store.close().await.unwrap();
}

pub(super) async fn what_was_answered_before_a_close_is_there_after_it(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let mut written = Vec::new();
    for _ in 0..3 {
        for _ in 0..5 {
            written.push(s.say("r", &a).await.json);
        }
        s.reopen().await;
        let read = s.log("r", &a).await;
        let read: Vec<_> = read.into_iter().map(|entry| entry.json).collect();
        assert_eq!(read, written);
    }
}
