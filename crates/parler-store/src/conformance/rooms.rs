//! Rooms, their members, and finding the room of two.

use parler_protocol::{AgentId, RoomKind, RoomName};

use super::story::{Story, T0, agent};
use crate::{InviteOutcome, NewInvite};

pub(super) async fn an_invite_opens_a_room_with_its_caller_as_member(s: &mut Story) {
    let a = agent(0);
    let outcome = s.store.invite(s.new_invite(&a, "r")).await.unwrap();
    let room = RoomName::new("r");
    assert_eq!(outcome, InviteOutcome::Invited { room, gated: false });
    let row = s.room("r", &a).await;
    assert_eq!((row.kind, row.members), (RoomKind::Channel, 1));
    assert_eq!((row.unread, row.unread_others), (0, 0));
}

pub(super) async fn membership_tells_the_kind_to_members_only(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let of = |room: &str, who: &AgentId| {
        let (store, room, who) = (s.store.clone(), RoomName::new(room), who.clone());
        async move { store.membership(&room, &who).await.unwrap() }
    };
    for (kind, room) in [
        (RoomKind::Channel, "r"),
        (RoomKind::Dm, "dm.abcdef"),
        (RoomKind::Service, "svc.review"),
    ] {
        let invite = s.new_invite(&a, room);
        s.mint(NewInvite { kind, ..invite }).await;
        assert_eq!(of(room, &a).await, Some(kind));
        assert_eq!(of(room, &b).await, None);
    }
    s.store.hello(&b, "ben", None, T0).await.unwrap();
    assert_eq!(of("r", &b).await, None);
    assert_eq!(of("R", &a).await, None);
    assert_eq!(of("nowhere", &a).await, None);
}

pub(super) async fn rooms_are_listed_by_name_with_their_members(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    for room in ["zoo", "b_c", "Zoo", "b-c", "bc", "another"] {
        s.open(room, &a).await;
    }
    s.join("zoo", &a, &[&b, &c]).await;
    s.join("bc", &a, &[&b]).await;
    let listed = |who: &AgentId| {
        let (store, who) = (s.store.clone(), who.clone());
        async move {
            let rows = store.rooms(&who).await.unwrap();
            let listed = rows.into_iter().map(|r| (r.name.to_string(), r.members));
            listed.collect::<Vec<_>>()
        }
    };
    let name = |name: &str, members: u32| (name.to_owned(), members);
    assert_eq!(
        listed(&a).await,
        [
            name("Zoo", 1),
            name("another", 1),
            name("b-c", 1),
            name("b_c", 1),
            name("bc", 2),
            name("zoo", 3)
        ]
    );
    assert_eq!(listed(&b).await, [name("bc", 2), name("zoo", 3)]);
    assert_eq!(listed(&agent(9)).await, []);
}

pub(super) async fn the_roster_is_for_members_and_ordered_by_name_then_id(s: &mut Story) {
    let agents: Vec<AgentId> = (0..5).map(agent).collect();
    let names = ["zoe", "ben", "Zoe", "ben", "ann"];
    // The last one first: neither the order of logins nor that of joins counts.
    for (who, name) in agents.iter().zip(names).rev() {
        s.store.hello(who, name, None, T0).await.unwrap();
    }
    s.open("r", &agents[3]).await;
    let others = [&agents[0], &agents[1], &agents[2], &agents[4]];
    s.join("r", &agents[3], &others).await;
    let room = RoomName::new("r");
    let roster = s.store.roster(&room, &agents[0]).await.unwrap().unwrap();
    let order: Vec<_> = roster.iter().map(|row| row.agent.clone()).collect();
    let expected = [2, 4, 1, 3, 0].map(|n: usize| agents[n].clone());
    assert_eq!(order, expected);

    let stranger = s.store.roster(&room, &agent(9)).await.unwrap();
    assert_eq!(stranger, None);
    let nowhere = s.store.roster(&RoomName::new("nowhere"), &agents[0]).await;
    assert_eq!(nowhere.unwrap(), None);
}

pub(super) async fn who_never_logged_in_is_in_the_roster_without_a_name(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let row = s.member("r", &a, &b).await;
    assert_eq!((row.name.as_str(), row.role), ("", None));
    assert_eq!((row.last_hello, row.presence), (0, None));
    s.store.hello(&b, "ben", None, T0 + 1).await.unwrap();
    let row = s.member("r", &a, &b).await;
    assert_eq!((row.name.as_str(), row.last_hello), ("ben", T0 + 1));
}

async fn open_dm(s: &Story, room: &str, members: &[&AgentId]) {
    let invite = NewInvite {
        kind: RoomKind::Dm,
        ..s.new_invite(members[0], room)
    };
    let code = s.mint(invite).await;
    for member in &members[1..] {
        s.redeem(code, member).await;
    }
}

pub(super) async fn a_dm_room_is_the_oldest_of_exactly_these_two(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    s.open("channel", &a).await;
    s.join("channel", &a, &[&b]).await;
    open_dm(s, "dm.three", &[&a, &b, &c]).await;
    open_dm(s, "dm.alone", &[&a]).await;
    assert_eq!(s.store.dm_room(&a, &b).await.unwrap(), None);

    open_dm(s, "dm.second", &[&b, &a]).await;
    open_dm(s, "dm.first", &[&a, &b]).await;
    open_dm(s, "dm.others", &[&b, &c]).await;
    for (one, other) in [(&a, &b), (&b, &a)] {
        let found = s.store.dm_room(one, other).await.unwrap();
        assert_eq!(found, Some(RoomName::new("dm.second")));
    }
    assert_eq!(s.store.dm_room(&a, &c).await.unwrap(), None);
    assert_eq!(s.store.dm_room(&a, &agent(9)).await.unwrap(), None);
}

pub(super) async fn there_is_no_dm_room_with_oneself(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    open_dm(s, "dm.alone", &[&a]).await;
    open_dm(s, "dm.two", &[&a, &b]).await;
    assert_eq!(s.store.dm_room(&a, &a).await.unwrap(), None);
}
