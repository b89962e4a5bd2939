//! The shortest story: invite, redeem, append, read, advance, rooms.
use std::sync::Arc;
use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use parler_store::*;
use parler_store_sqlite::{Durability, OpenOptions, SqliteStore};

#[tokio::test]
async fn a_story() {
    let store = SqliteStore::open(OpenOptions { path: None, durability: Durability::Full, sink: Arc::new(()), lock_note: "x".into() }).unwrap();
    let a = AgentId::trusted("UA"); let b = AgentId::trusted("UB");
    store.hello(&a, "a", Some("planner"), 1).await.unwrap();
    store.hello(&b, "b", None, 1).await.unwrap();
    let room = RoomName::new("r");
    let out = store.invite(NewInvite { agent: a.clone(), kind: RoomKind::Channel, room: room.clone(), verbatim: None, code: [1; 32], id: "i".into(), expires_at: 100, max_uses: 1, gated: false, max_owned_rooms: 10, now: 1 }).await.unwrap();
    assert_eq!(out, InviteOutcome::Invited { room: room.clone(), gated: false });
    let j = store.redeem([1; 32], &b, 2).await.unwrap();
    assert!(matches!(j, RedeemOutcome::Joined { .. }));
    let x = store.append(Append { agent: a.clone(), name: "a".into(), role: None, room: room.clone(), id: "m1".into(), parts: "[]".into(), mentions: None, reply_to: None, client_id: Some("k".into()), digest: Some([2; 32]), now: 5 }).await.unwrap();
    let Appended::New(e) = x else { panic!() };
    let page = store.read(&room, &b, ReadFrom::Cursor { ack: None }, 10).await.unwrap().unwrap();
    assert_eq!(page.entries[0].json, e.json);
    println!("{}", e.json);
    let rooms = store.rooms(&a).await.unwrap();
    assert_eq!((rooms[0].unread, rooms[0].unread_others, rooms[0].members), (1, 0, 2));
    assert_eq!(store.advance(&room, &b, Seq(1)).await.unwrap(), Seq(1));
    assert_eq!(store.rooms(&b).await.unwrap()[0].unread, 0);
    assert_eq!(store.roster(&room, &b).await.unwrap().unwrap().len(), 2);
    println!("{:?}", store.stats());
    store.close().await.unwrap();
    assert!(matches!(store.ping().await, Err(StoreError::Closed)));
}
