//! What an owner decides, and who comes and goes.

use parler_protocol::{RoomName, Seq};

use super::story::{Story, T0, agent};
use crate::{
    Appended, LeaveOutcome, MemberOutcome, NewInvite, ReadFrom, RedeemOutcome, ResolveOutcome,
    WhichInvites,
};

fn r() -> RoomName {
    RoomName::new("r")
}

async fn waiting(s: &Story, owner: u8) -> Option<usize> {
    let rows = s.store.join_requests(&r(), &agent(owner)).await.unwrap();
    rows.map(|rows| rows.len())
}

async fn gated(s: &Story) -> [u8; 32] {
    let invite = s.new_invite(&agent(0), "r");
    s.mint(NewInvite {
        gated: true,
        ..invite
    })
    .await
}

pub(super) async fn an_owner_admits_refuses_and_thinks_again(s: &mut Story) {
    let b = agent(1);
    let code = gated(s).await;
    s.redeem(code, &b).await;
    assert_eq!(waiting(s, 0).await, Some(1));
    assert_eq!(waiting(s, 1).await, None, "not the owner");
    let store = s.store.clone();
    let resolve = |approve| {
        let store = store.clone();
        async move {
            store
                .resolve_join(&r(), &agent(0), &agent(1), approve, T0)
                .await
                .unwrap()
        }
    };
    assert_eq!(resolve(false).await, ResolveOutcome::Resolved);
    assert_eq!(waiting(s, 0).await, Some(0));
    assert_eq!(s.redeem(code, &b).await, RedeemOutcome::Denied);
    assert_eq!(resolve(true).await, ResolveOutcome::Resolved);
    assert_eq!(s.room("r", &b).await.members, 2);
    assert_eq!(resolve(true).await, ResolveOutcome::NoRequest);
    let foreign = s.store.resolve_join(&r(), &b, &b, true, T0).await.unwrap();
    assert_eq!(foreign, ResolveOutcome::NotOwner);
}

pub(super) async fn requests_of_one_moment_keep_their_order(s: &mut Story) {
    let code = gated(s).await;
    let asked = [agent(5), agent(2), agent(9), agent(1)];
    for agent in &asked {
        s.redeem(code, agent).await;
    }
    let rows = s.store.join_requests(&r(), &agent(0)).await.unwrap();
    let listed: Vec<_> = rows.unwrap().into_iter().map(|row| row.agent).collect();
    assert_eq!(listed, asked);
}

pub(super) async fn who_leaves_is_no_member_and_may_come_back(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    s.redeem(code, &b).await;
    s.say("r", &b).await;
    assert_eq!(
        s.store.leave(&r(), &a, T0).await.unwrap(),
        LeaveOutcome::OwnerStays
    );
    s.heard.take();
    assert_eq!(
        s.store.leave(&r(), &b, T0).await.unwrap(),
        LeaveOutcome::Left
    );
    assert_eq!(s.heard.take(), [format!("{} left r", b.short())]);
    assert_eq!(
        s.store.leave(&r(), &b, T0).await.unwrap(),
        LeaveOutcome::NotMember
    );
    let refused = s.store.append(s.draft("r", &b)).await.unwrap();
    assert!(matches!(refused, Appended::NotMember), "{refused:?}");
    assert_eq!(s.room("r", &a).await.members, 1);
    s.redeem(code, &b).await;
    assert_eq!(
        s.unread("r", &b).await,
        (1, 0),
        "what it wrote before is its own"
    );
}

pub(super) async fn the_last_member_takes_the_room_along(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    let last = s.say("r", &a).await.seq;
    assert_eq!(
        s.store.leave(&r(), &a, T0).await.unwrap(),
        LeaveOutcome::Left
    );
    s.reopen().await;
    s.open("r", &b).await;
    let first = s.say("r", &b).await.seq;
    assert!(first > last, "no seq is used twice");
}

pub(super) async fn an_owner_removes_and_bans(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    s.redeem(code, &b).await;
    let store = s.store.clone();
    let remove = |by, who, ban| {
        let store = store.clone();
        async move {
            store
                .remove_member(&r(), &agent(by), &agent(who), ban, T0)
                .await
                .unwrap()
        }
    };
    assert_eq!(remove(1, 0, false).await, MemberOutcome::NotOwner);
    assert_eq!(remove(0, 2, false).await, MemberOutcome::NotMember);
    assert_eq!(
        remove(0, 0, false).await,
        MemberOutcome::NotMember,
        "not oneself"
    );
    assert_eq!(remove(0, 1, false).await, MemberOutcome::Done);
    assert!(matches!(
        s.redeem(code, &b).await,
        RedeemOutcome::Joined { .. }
    ));
    let theirs = s.open("r", &b).await;
    assert_eq!(remove(0, 1, true).await, MemberOutcome::Done);
    assert_eq!(
        s.redeem(theirs, &agent(3)).await,
        RedeemOutcome::Unknown,
        "its codes end with it"
    );
    assert_eq!(s.redeem(code, &b).await, RedeemOutcome::Denied);
}

pub(super) async fn a_room_is_passed_on(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    let store = s.store.clone();
    let pass = |by, to| {
        let store = store.clone();
        async move {
            store
                .transfer_owner(&r(), &agent(by), &agent(to))
                .await
                .unwrap()
        }
    };
    assert_eq!(pass(0, 1).await, MemberOutcome::NotMember);
    s.redeem(code, &b).await;
    assert_eq!(pass(0, 1).await, MemberOutcome::Done);
    assert_eq!(pass(0, 1).await, MemberOutcome::NotOwner);
    assert_eq!(
        s.store.leave(&r(), &a, T0).await.unwrap(),
        LeaveOutcome::Left
    );
}

pub(super) async fn a_deleted_room_leaves_nothing(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    s.redeem(code, &b).await;
    let other = s.open("other", &a).await;
    s.say("other", &a).await;
    let last = s.say("r", &a).await.seq;
    assert!(s.store.delete_room(&r(), &b).await.unwrap().is_none());
    assert!(s.store.delete_room(&r(), &a).await.unwrap().is_some());
    let read = s
        .store
        .read(&r(), &a, ReadFrom::Since(Seq(0)), 10)
        .await
        .unwrap();
    assert!(read.is_none());
    assert_eq!(s.redeem(code, &b).await, RedeemOutcome::Unknown);
    assert!(matches!(
        s.redeem(other, &b).await,
        RedeemOutcome::Joined { .. }
    ));
    assert_eq!(
        s.log("other", &a).await.len(),
        1,
        "other rooms are untouched"
    );
    s.reopen().await;
    s.open("r", &b).await;
    assert!(s.say("r", &b).await.seq > last);
    assert_eq!(s.log("r", &b).await.len(), 1);
}

pub(super) async fn invites_are_revoked_by_minter_or_owner(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let code = s.open("r", &a).await;
    s.redeem(code, &b).await;
    let theirs = s.open("r", &b).await;
    let store = s.store.clone();
    let revoke = |by, which| {
        let store = store.clone();
        async move { store.revoke_invites(&agent(by), which).await.unwrap() }
    };
    assert_eq!(revoke(1, WhichInvites::Code(code)).await, 0);
    assert_eq!(revoke(2, WhichInvites::Room(r())).await, 0);
    assert_eq!(revoke(1, WhichInvites::Code(theirs)).await, 1);
    s.open("r", &b).await;
    assert_eq!(revoke(0, WhichInvites::Room(r())).await, 2);
    assert_eq!(s.redeem(code, &agent(2)).await, RedeemOutcome::Unknown);
}
