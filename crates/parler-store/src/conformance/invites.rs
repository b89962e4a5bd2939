//! Minting and redeeming codes. How an owner decides has no method yet, so refusals by an owner
//! are not told here.

use parler_protocol::{AgentId, RoomKind, RoomName};

use super::story::{LIFE, Story, T0, agent};
use crate::{CodeHash, InviteOutcome, NewInvite, RedeemOutcome, StoreError};

fn joined(room: &str) -> RedeemOutcome {
    RedeemOutcome::Joined {
        room: RoomName::new(room),
        kind: RoomKind::Channel,
    }
}

fn pending(room: &str, new: bool) -> RedeemOutcome {
    RedeemOutcome::Pending {
        room: RoomName::new(room),
        new,
    }
}

fn invited(room: &str, gated: bool) -> InviteOutcome {
    InviteOutcome::Invited {
        room: RoomName::new(room),
        gated,
    }
}

async fn open_gated(s: &Story, room: &str, owner: &AgentId) -> CodeHash {
    let invite = s.new_invite(owner, room);
    let gated = true;
    s.mint(NewInvite { gated, ..invite }).await
}

pub(super) async fn a_stranger_cannot_invite_into_a_room_that_exists(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.store.hello(&b, "ben", None, T0).await.unwrap();
    let invite = s.new_invite(&b, "r");
    let code = invite.code;
    let outcome = s.store.invite(invite).await.unwrap();
    assert_eq!(outcome, InviteOutcome::NotMember);
    assert_eq!(s.redeem(code, &agent(2)).await, RedeemOutcome::Unknown);
    assert_eq!(s.room("r", &a).await.members, 1);
}

pub(super) async fn any_member_may_invite(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    s.join("r", &b, &[&c]).await;
    assert_eq!(s.room("r", &c).await.members, 3);
}

pub(super) async fn an_agent_owns_no_more_rooms_than_it_may(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let at_most = |room: &str, max_owned_rooms| NewInvite {
        max_owned_rooms,
        ..s.new_invite(&a, room)
    };
    let none = s.store.invite(at_most("zero", 0)).await.unwrap();
    assert_eq!(none, InviteOutcome::TooManyRooms);
    for room in ["one", "two"] {
        s.mint(at_most(room, 2)).await;
    }
    let third = at_most("three", 2);
    let code = third.code;
    let outcome = s.store.invite(third).await.unwrap();
    assert_eq!(outcome, InviteOutcome::TooManyRooms);
    assert_eq!(s.redeem(code, &b).await, RedeemOutcome::Unknown);
    assert_eq!(s.store.rooms(&a).await.unwrap().len(), 2);

    // Rooms that exist, and rooms of others, are not counted.
    s.mint(at_most("two", 2)).await;
    s.open("bens", &b).await;
    s.join("bens", &b, &[&a]).await;
    s.mint(at_most("bens", 2)).await;
    s.mint(at_most("three", 3)).await;
}

pub(super) async fn a_verbatim_name_counts_for_members_of_a_room_of_that_kind(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("room.ab12cd", &a).await;
    let verbatim = |who: &AgentId, kind| NewInvite {
        verbatim: Some(RoomName::new("room.ab12cd")),
        kind,
        ..s.new_invite(who, "room_ab12cd")
    };
    let mine = verbatim(&a, RoomKind::Channel);
    let code = mine.code;
    let outcome = s.store.invite(mine).await.unwrap();
    assert_eq!(outcome, invited("room.ab12cd", false));
    assert_eq!(s.redeem(code, &agent(2)).await, joined("room.ab12cd"));

    let theirs = s
        .store
        .invite(verbatim(&b, RoomKind::Channel))
        .await
        .unwrap();
    assert_eq!(theirs, invited("room_ab12cd", false));
    assert_eq!(s.room("room_ab12cd", &b).await.members, 1);

    let missing = NewInvite {
        verbatim: Some(RoomName::new("room.nowhere")),
        ..s.new_invite(&a, "room_nowhere")
    };
    let outcome = s.store.invite(missing).await.unwrap();
    assert_eq!(outcome, invited("room_nowhere", false));

    let service = NewInvite {
        room: RoomName::new("svc.room_ab12cd"),
        ..verbatim(&a, RoomKind::Service)
    };
    let outcome = s.store.invite(service).await.unwrap();
    assert_eq!(outcome, invited("svc.room_ab12cd", false));
}

pub(super) async fn an_unknown_code_is_unknown(s: &mut Story) {
    s.open("r", &agent(0)).await;
    let outcome = s.redeem([9; 32], &agent(1)).await;
    assert_eq!(outcome, RedeemOutcome::Unknown);
}

pub(super) async fn a_member_redeems_free_of_charge_whatever_the_code_is_worth(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    let once = NewInvite {
        max_uses: 1,
        ..s.new_invite(&a, "r")
    };
    let code = s.mint(once).await;
    for _ in 0..3 {
        assert_eq!(s.redeem(code, &a).await, joined("r"));
    }
    assert_eq!(s.redeem(code, &b).await, joined("r"));
    assert_eq!(s.redeem(code, &b).await, joined("r"));
    assert_eq!(s.redeem_at(code, &b, T0 + LIFE + 1).await, joined("r"));
    assert_eq!(s.redeem(code, &c).await, RedeemOutcome::UsedUp);
    assert_eq!(s.room("r", &a).await.members, 2);

    let gated = open_gated(s, "r", &a).await;
    assert_eq!(s.redeem(gated, &b).await, joined("r"));
}

pub(super) async fn a_code_ends_after_its_last_millisecond(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    let code = s.open("r", &a).await;
    let late = s.redeem_at(code, &c, T0 + LIFE + 1).await;
    assert_eq!(late, RedeemOutcome::Expired);
    assert_eq!(s.redeem_at(code, &b, T0 + LIFE).await, joined("r"));
    assert_eq!(s.store.rooms(&c).await.unwrap(), []);
}

pub(super) async fn a_code_admits_as_often_as_it_says(s: &mut Story) {
    let a = agent(0);
    for max_uses in 0..3_u8 {
        let room = format!("r{max_uses}");
        let invite = NewInvite {
            max_uses: max_uses.into(),
            ..s.new_invite(&a, &room)
        };
        let code = s.mint(invite).await;
        for n in 1..=max_uses {
            assert_eq!(s.redeem(code, &agent(n)).await, joined(&room));
        }
        let outcome = s.redeem(code, &agent(9)).await;
        assert_eq!(outcome, RedeemOutcome::UsedUp);
        assert_eq!(s.room(&room, &a).await.members, u32::from(max_uses) + 1);
    }
}

pub(super) async fn an_expired_code_is_expired_even_when_used_up(s: &mut Story) {
    let a = agent(0);
    for gated in [false, true] {
        let invite = NewInvite {
            max_uses: 0,
            gated,
            ..s.new_invite(&a, "r")
        };
        let code = s.mint(invite).await;
        let (in_time, late) = (T0 + LIFE, T0 + LIFE + 1);
        let outcome = s.redeem_at(code, &agent(1), in_time).await;
        assert_eq!(outcome, RedeemOutcome::UsedUp);
        let outcome = s.redeem_at(code, &agent(1), late).await;
        assert_eq!(outcome, RedeemOutcome::Expired);
    }
}

pub(super) async fn a_gated_code_makes_a_request_that_waits(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let outcome = {
        let invite = s.new_invite(&a, "r");
        let gated = true;
        s.store.invite(NewInvite { gated, ..invite }).await.unwrap()
    };
    assert_eq!(outcome, invited("r", true));
    let code = open_gated(s, "r", &a).await;
    s.heard.take();
    assert_eq!(s.redeem(code, &b).await, pending("r", true));
    assert_eq!(s.redeem(code, &b).await, pending("r", false));
    let asked = format!("{} asked r", b.short());
    let waits = format!("{} waits for {} in r", b.short(), a.short());
    assert_eq!(s.heard.take(), [asked, waits], "once");
    assert_eq!(s.room("r", &a).await.members, 1);
    assert_eq!(s.store.rooms(&b).await.unwrap(), []);
    // Any other gated code of the room says the same.
    let another = open_gated(s, "r", &a).await;
    assert_eq!(s.redeem(another, &b).await, pending("r", false));
}

pub(super) async fn a_waiting_request_outlives_its_code(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    let code = open_gated(s, "r", &a).await;
    assert_eq!(s.redeem(code, &b).await, pending("r", true));
    let late = T0 + LIFE + 1;
    assert_eq!(s.redeem_at(code, &b, late).await, pending("r", false));
    assert_eq!(s.redeem_at(code, &c, late).await, RedeemOutcome::Expired);
    assert_eq!(s.redeem(code, &c).await, pending("r", true));
}

pub(super) async fn every_request_spends_a_use_and_asking_again_does_not(s: &mut Story) {
    let a = agent(0);
    let invite = NewInvite {
        max_uses: 2,
        gated: true,
        ..s.new_invite(&a, "r")
    };
    let code = s.mint(invite).await;
    for n in [1, 2] {
        assert_eq!(s.redeem(code, &agent(n)).await, pending("r", true));
        assert_eq!(s.redeem(code, &agent(n)).await, pending("r", false));
    }
    let outcome = s.redeem(code, &agent(3)).await;
    assert_eq!(outcome, RedeemOutcome::UsedUp);
    assert_eq!(s.redeem(code, &agent(1)).await, pending("r", false));
}

pub(super) async fn an_open_code_admits_who_waits_at_the_gate(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let gated = open_gated(s, "r", &a).await;
    let open = s.open("r", &a).await;
    assert_eq!(s.redeem(gated, &b).await, pending("r", true));
    let late = s.redeem_at(open, &b, T0 + LIFE + 1).await;
    assert_eq!(late, RedeemOutcome::Expired);
    assert_eq!(s.redeem(open, &b).await, joined("r"));
    assert_eq!(s.redeem(gated, &b).await, joined("r"));
    assert_eq!(s.room("r", &a).await.members, 2);
}

pub(super) async fn a_gated_room_stays_gated_for_its_members(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    open_gated(s, "r", &a).await;
    s.join("r", &a, &[&b]).await;
    let invite = s.new_invite(&b, "r");
    let code = invite.code;
    let outcome = s.store.invite(invite).await.unwrap();
    assert_eq!(outcome, invited("r", true));
    assert_eq!(s.redeem(code, &c).await, pending("r", true));

    let owners = s.store.invite(s.new_invite(&a, "r")).await.unwrap();
    assert_eq!(owners, invited("r", false));
}

pub(super) async fn a_members_gate_binds_the_others_and_not_the_owner(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    s.open("r", &a).await;
    s.join("r", &a, &[&b, &c]).await;
    let before = s.store.invite(s.new_invite(&c, "r")).await.unwrap();
    assert_eq!(before, invited("r", false));
    open_gated(s, "r", &b).await;
    for who in [&b, &c] {
        let after = s.store.invite(s.new_invite(who, "r")).await.unwrap();
        assert_eq!(after, invited("r", true));
    }
    let owners = s.store.invite(s.new_invite(&a, "r")).await.unwrap();
    assert_eq!(owners, invited("r", false));
}

pub(super) async fn a_taken_code_is_refused_and_nobody_else_suffers(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let invite = s.new_invite(&a, "r");
    let code = s.mint(invite.clone()).await;
    let same_code = NewInvite {
        id: "another".into(),
        ..invite.clone()
    };
    let same_id = NewInvite {
        code: [7; 32],
        ..invite
    };
    for taken in [same_code, same_id] {
        let other = NewInvite {
            agent: b.clone(),
            room: RoomName::new("theirs"),
            ..taken
        };
        let says = s.draft("r", &a);
        let (refused, said) = tokio::join!(s.store.invite(other), s.store.append(says));
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
        said.unwrap();
    }
    assert_eq!(s.store.rooms(&b).await.unwrap(), []);
    assert_eq!(s.log("r", &a).await.len(), 2);
    assert_eq!(s.redeem(code, &b).await, joined("r"));
}

pub(super) async fn invites_and_requests_survive_a_restart(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    let once = NewInvite {
        max_uses: 1,
        ..s.new_invite(&a, "r")
    };
    let open = s.mint(once).await;
    let gated = open_gated(s, "r", &a).await;
    assert_eq!(s.redeem(gated, &b).await, pending("r", true));
    s.reopen().await;
    assert_eq!(s.redeem(gated, &b).await, pending("r", false));
    assert_eq!(s.redeem(open, &c).await, joined("r"));
    s.reopen().await;
    assert_eq!(s.redeem(open, &b).await, RedeemOutcome::UsedUp);
    let invite = s.store.invite(s.new_invite(&c, "r")).await.unwrap();
    assert_eq!(invite, invited("r", true));
}
