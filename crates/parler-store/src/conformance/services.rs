//! Service queues: who serves, whom work waits for, and who holds it.

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};

use super::story::{Story, T0, agent, together};
use crate::{
    Append, Appended, ClaimOutcome, CompleteOutcome, LogEntry, MessageRule, NewInvite, NewWorker,
    ReadFrom, RedeemOutcome, ServeOutcome, StepSize, Work, WorkEnd,
};

/// A lease, in milliseconds.
const LEASE: i64 = 1000;

fn svc() -> RoomName {
    RoomName::new("svc.build")
}

fn worker(who: &AgentId, role: &str) -> NewWorker {
    NewWorker {
        agent: who.clone(),
        room: svc(),
        role: role.into(),
        max_owned_rooms: 10,
        now: T0,
    }
}

/// Serves the room by the role `build`, and is idle.
async fn serves(s: &Story, who: &AgentId) {
    let store = &s.store;
    store.hello(who, who.short(), None, T0).await.unwrap();
    let outcome = store.serve(worker(who, "build")).await.unwrap();
    assert_eq!(outcome, ServeOutcome::Serving);
}

/// A request for a role that joins its author to the service.
fn request(s: &Story, who: &AgentId, roles: &[&str]) -> Append {
    Append {
        dispatch: roles.iter().map(|role| (*role).to_owned()).collect(),
        join: true,
        ..s.draft("svc.build", who)
    }
}

async fn requests(s: &Story, who: &AgentId, roles: &[&str]) -> LogEntry {
    s.append(request(s, who, roles)).await
}

async fn waits(s: &Story, who: &AgentId, role: &str, now: i64) -> Vec<String> {
    let entries = s.store.queue(&svc(), who, role, 100, now).await.unwrap();
    entries.iter().map(|entry| entry.id.to_string()).collect()
}

fn work(who: &AgentId, entry: &LogEntry, now: i64) -> Work {
    Work {
        agent: who.clone(),
        room: svc(),
        message: entry.id.to_string(),
        take: None,
        now,
    }
}

async fn claim(s: &Story, who: &AgentId, entry: &LogEntry, now: i64) -> ClaimOutcome {
    s.store.claim(work(who, entry, now), LEASE).await.unwrap()
}

/// The same, by a known take.
async fn renew(s: &Story, who: &AgentId, entry: &LogEntry, take: i64, now: i64) -> ClaimOutcome {
    let take = Some(take);
    let work = Work {
        take,
        ..work(who, entry, now)
    };
    s.store.claim(work, LEASE).await.unwrap()
}

async fn finish(s: &Story, who: &AgentId, entry: &LogEntry, now: i64) -> CompleteOutcome {
    let work = work(who, entry, now);
    s.store.complete(work, WorkEnd::Done).await.unwrap()
}

fn taken(take: i64, since: i64) -> ClaimOutcome {
    ClaimOutcome::Claimed {
        take,
        lease_until: since + LEASE,
    }
}

/// A refusal, for which nobody in particular is the reason.
const NO: ClaimOutcome = ClaimOutcome::Refused { holder: None };

pub(super) async fn the_first_to_serve_owns_the_service(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    assert!(!s.store.is_service(&svc()).await.unwrap());
    serves(s, &a).await;
    assert_eq!(
        s.heard.take(),
        [format!("{} joined service svc.build", a.short())]
    );
    serves(s, &b).await;
    assert!(s.store.is_service(&svc()).await.unwrap());
    assert_eq!(
        s.store.membership(&svc(), &b).await.unwrap(),
        Some(RoomKind::Service)
    );
    assert_eq!(s.room("svc.build", &a).await.members, 2);
    assert!(s.store.delete_room(&svc(), &b).await.unwrap().is_none());
    assert!(s.store.delete_room(&svc(), &a).await.unwrap().is_some());
}

pub(super) async fn serving_again_overwrites_the_role(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    requests(s, &b, &["build"]).await;
    s.store.serve(worker(&a, " Other ")).await.unwrap();
    let row = s.member("svc.build", &a, &a).await;
    assert_eq!(row.service_role.as_deref(), Some(" Other "));
    let row = s.member("svc.build", &a, &b).await;
    assert_eq!(row.service_role, None, "a requester is no worker");
    assert_eq!(s.room("svc.build", &a).await.members, 2, "no second time");
    assert_eq!(waits(s, &a, "build", T0).await, [""; 0]);
}

pub(super) async fn an_agent_serves_no_new_room_beyond_its_quota(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let poor = |who| NewWorker {
        max_owned_rooms: 1,
        ..worker(who, "build")
    };
    s.open("r", &a).await;
    let refused = s.store.serve(poor(&a)).await.unwrap();
    assert_eq!(refused, ServeOutcome::TooManyRooms);
    assert!(!s.store.is_service(&svc()).await.unwrap());
    assert_eq!(
        s.store.serve(poor(&b)).await.unwrap(),
        ServeOutcome::Serving
    );
    assert_eq!(
        s.store.serve(poor(&a)).await.unwrap(),
        ServeOutcome::Serving,
        "it is not its own"
    );
}

pub(super) async fn a_message_joins_its_author_at_the_head(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    s.say("svc.build", &a).await;
    s.heard.take();
    let entry = requests(s, &b, &["build"]).await;
    assert_eq!(
        s.heard.take(),
        [
            format!("{} joined service svc.build", b.short()),
            format!("{} in svc.build", entry.id)
        ]
    );
    assert_eq!(s.unread("svc.build", &b).await, (1, 0));
    let answer = s.say("svc.build", &a).await;
    assert_eq!(s.unread("svc.build", &b).await, (2, 1));
    let from = ReadFrom::Cursor { ack: None };
    let page = s.read("svc.build", &b, from).await;
    let seqs: Vec<_> = page.entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [entry.seq, answer.seq]);
    requests(s, &b, &["build"]).await;
    assert_eq!(s.room("svc.build", &b).await.members, 2, "once");
}

pub(super) async fn who_comes_by_itself_reads_nothing_of_before(s: &mut Story) {
    let (a, b, c, d) = (agent(0), agent(1), agent(2), agent(3));
    serves(s, &a).await;
    let secret = requests(s, &a, &["build"]).await;
    let asked = requests(s, &b, &["build"]).await;
    serves(s, &c).await;
    s.reopen().await;
    let floor = ReadFrom::Since(Seq(0));
    let seen = s.read("svc.build", &b, floor).await;
    assert_eq!(seen.floor, Seq(0), "the read began where it was asked to");
    assert_eq!(
        seen.entries.iter().map(|e| e.seq).collect::<Vec<_>>(),
        [asked.seq]
    );
    assert!(s.log("svc.build", &c).await.is_empty());
    // Who was invited may read all of it.
    let invite = NewInvite {
        kind: RoomKind::Service,
        ..s.new_invite(&a, "svc.build")
    };
    let code = s.mint(invite).await;
    s.redeem(code, &d).await;
    assert_eq!(s.log("svc.build", &d).await[0].seq, secret.seq);
}

pub(super) async fn a_refused_message_joins_nobody(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let unknown = s.store.append(request(s, &b, &["build"])).await.unwrap();
    assert!(matches!(unknown, Appended::UnknownService), "{unknown:?}");
    s.open("svc.build", &a).await;
    let channel = s.store.append(request(s, &b, &["build"])).await.unwrap();
    assert!(matches!(channel, Appended::UnknownService), "{channel:?}");
    s.store.delete_room(&svc(), &a).await.unwrap();
    serves(s, &a).await;
    let stranger = s.store.append(s.draft("svc.build", &b)).await.unwrap();
    assert!(matches!(stranger, Appended::NotMember), "{stranger:?}");
    assert_eq!(s.store.membership(&svc(), &b).await.unwrap(), None);
    assert_eq!(s.log("svc.build", &a).await.len(), 0);
}

pub(super) async fn who_was_banned_or_meets_a_gate_does_not_come_by_itself(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    requests(s, &b, &["build"]).await;
    let ban = s.store.remove_member(&svc(), &a, &b, true, T0).await;
    ban.unwrap();
    let sent = s.store.append(request(s, &b, &["build"])).await.unwrap();
    assert!(matches!(sent, Appended::Denied), "{sent:?}");
    let served = s.store.serve(worker(&b, "build")).await.unwrap();
    assert_eq!(served, ServeOutcome::Denied);

    let gate = NewInvite {
        kind: RoomKind::Service,
        gated: true,
        ..s.new_invite(&a, "svc.build")
    };
    let code = s.mint(gate).await;
    let c = agent(2);
    let sent = s.store.append(request(s, &c, &["build"])).await.unwrap();
    assert!(matches!(sent, Appended::Denied), "{sent:?}");
    let served = s.store.serve(worker(&c, "build")).await.unwrap();
    assert_eq!(served, ServeOutcome::Denied);
    let asked = s.redeem(code, &c).await;
    assert!(
        matches!(asked, RedeemOutcome::Pending { .. }),
        "it is not even known as a member: {asked:?}"
    );
    let admit = s.store.resolve_join(&svc(), &a, &c, true, T0).await;
    admit.unwrap();
    serves(s, &c).await;
    requests(s, &c, &["build"]).await;
}

pub(super) async fn work_waits_in_order_for_its_role(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    let first = requests(s, &b, &["other", "BUILD", "build"]).await;
    requests(s, &b, &["other"]).await;
    requests(s, &b, &[]).await;
    let second = requests(s, &b, &["build"]).await;
    let ids = [first.id.to_string(), second.id.to_string()];
    assert_eq!(waits(s, &a, "build", T0).await, ids);
    assert_eq!(waits(s, &a, "Build", T0).await, ids, "case does not count");
    assert_eq!(waits(s, &a, "other", T0).await, [""; 0], "not its role");
    assert_eq!(waits(s, &b, "build", T0).await, [""; 0], "not a worker");
    let one = s.store.queue(&svc(), &a, "build", 1, T0).await.unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].json, first.json, "as the log has it");
    let nothing = s.store.queue(&svc(), &a, "build", 0, T0).await.unwrap();
    assert!(nothing.is_empty());
}

pub(super) async fn only_an_available_worker_sees_and_takes_work(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    let entry = requests(s, &b, &["build"]).await;
    for status in ["working", "offline", "Idle", "idle ", ""] {
        let set = s.store.set_presence(&a, status, None, None, T0).await;
        set.unwrap();
        assert_eq!(waits(s, &a, "build", T0).await, [""; 0], "{status:?}");
        assert_eq!(claim(s, &a, &entry, T0).await, NO, "{status:?}");
    }
    for (n, status) in ["idle", "waiting"].into_iter().enumerate() {
        let set = s.store.set_presence(&a, status, None, None, T0).await;
        set.unwrap();
        let now = T0 + i64::try_from(n).unwrap() * 2 * LEASE;
        assert_eq!(waits(s, &a, "build", now).await.len(), 1, "{status:?}");
        let take = i64::try_from(n).unwrap() + 1;
        assert_eq!(claim(s, &a, &entry, now).await, taken(take, now));
    }
}

pub(super) async fn a_claim_needs_the_role_that_the_work_is_for(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    let other = requests(s, &b, &["other"]).await;
    let both = requests(s, &b, &["other", "Build"]).await;
    let none = requests(s, &b, &[]).await;
    assert_eq!(claim(s, &a, &other, T0).await, NO);
    assert_eq!(claim(s, &a, &none, T0).await, ClaimOutcome::NotWork);
    assert_eq!(claim(s, &b, &both, T0).await, NO, "a requester");
    assert_eq!(claim(s, &c, &both, T0).await, ClaimOutcome::NotMember);
    assert_eq!(finish(s, &c, &both, T0).await, CompleteOutcome::NotMember);
    assert_eq!(finish(s, &a, &none, T0).await, CompleteOutcome::NotWork);
    assert_eq!(
        finish(s, &a, &both, T0).await,
        CompleteOutcome::Unchanged,
        "never taken"
    );
    assert_eq!(claim(s, &a, &both, T0).await, taken(1, T0));
}

pub(super) async fn a_holder_renews_and_nobody_else_takes(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    serves(s, &c).await;
    let entry = requests(s, &b, &["build"]).await;
    assert_eq!(claim(s, &a, &entry, T0).await, taken(1, T0));
    assert_eq!(waits(s, &c, "build", T0).await, [""; 0]);
    match claim(s, &c, &entry, T0).await {
        ClaimOutcome::Refused {
            holder: Some(holder),
        } => assert_eq!((holder.agent, holder.name.as_str()), (a.clone(), a.short())),
        other => panic!("{other:?}"),
    }
    let set = s.store.set_presence(&a, "working", None, None, T0).await;
    set.unwrap();
    assert_eq!(claim(s, &a, &entry, T0 + 500).await, taken(1, T0 + 500));
    assert_eq!(renew(s, &a, &entry, 1, T0 + 900).await, taken(1, T0 + 900));
    assert_eq!(
        finish(s, &c, &entry, T0 + 900).await,
        CompleteOutcome::Unchanged
    );
    assert_eq!(
        finish(s, &a, &entry, T0 + 900 + LEASE).await,
        CompleteOutcome::Completed,
        "up to its last moment"
    );
}

pub(super) async fn a_lease_that_ran_out_frees_the_work(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    serves(s, &c).await;
    let entry = requests(s, &b, &["build"]).await;
    assert_eq!(claim(s, &a, &entry, T0).await, taken(1, T0));
    let end = T0 + LEASE;
    assert_eq!(waits(s, &c, "build", end - 1).await, [""; 0]);
    assert_eq!(waits(s, &c, "build", end).await, [entry.id.to_string()]);
    assert_eq!(
        finish(s, &a, &entry, end + 1).await,
        CompleteOutcome::Unchanged
    );
    assert_eq!(claim(s, &c, &entry, end).await, taken(2, end));
    assert!(matches!(
        claim(s, &a, &entry, end + 1).await,
        ClaimOutcome::Refused { holder: Some(_) }
    ));
    assert_eq!(finish(s, &a, &entry, end).await, CompleteOutcome::Unchanged);
    let again = end + LEASE;
    assert_eq!(claim(s, &c, &entry, again).await, taken(3, again));
}

pub(super) async fn an_outdated_take_changes_nothing(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    let entry = requests(s, &b, &["build"]).await;
    assert_eq!(
        renew(s, &a, &entry, 1, T0).await,
        NO,
        "a take that was not made takes nothing"
    );
    assert_eq!(claim(s, &a, &entry, T0).await, taken(1, T0));
    let late = T0 + LEASE;
    assert_eq!(renew(s, &a, &entry, 1, late).await, NO, "it ran out");
    // The same agent took it again, in another process of it.
    assert_eq!(claim(s, &a, &entry, late).await, taken(2, late));
    for take in [0, 1, 3, -1, i64::MAX] {
        assert_eq!(renew(s, &a, &entry, take, late).await, NO, "{take}");
        let work = Work {
            take: Some(take),
            ..work(&a, &entry, late)
        };
        let end = s.store.complete(work, WorkEnd::Failed).await.unwrap();
        assert_eq!(end, CompleteOutcome::Unchanged, "{take}");
    }
    let work = Work {
        take: Some(2),
        ..work(&a, &entry, late + LEASE)
    };
    let end = s.store.complete(work, WorkEnd::Failed).await.unwrap();
    assert_eq!(
        end,
        CompleteOutcome::Completed,
        "the lease was not shortened either"
    );
}

pub(super) async fn what_is_ended_stays_ended(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    for end in [WorkEnd::Done, WorkEnd::Failed, WorkEnd::Cancelled] {
        let entry = requests(s, &b, &["build", "other"]).await;
        claim(s, &a, &entry, T0).await;
        let ended = s.store.complete(work(&a, &entry, T0), end).await.unwrap();
        assert_eq!(ended, CompleteOutcome::Completed);
        for later in [T0, T0 + 2 * LEASE] {
            assert_eq!(waits(s, &a, "build", later).await, [""; 0]);
            assert_eq!(claim(s, &a, &entry, later).await, NO);
            assert_eq!(
                finish(s, &a, &entry, later).await,
                CompleteOutcome::Unchanged
            );
        }
        s.store.serve(worker(&a, "other")).await.unwrap();
        assert_eq!(waits(s, &a, "other", T0).await, [""; 0], "for every role");
        serves(s, &a).await;
    }
    assert_eq!(s.log("svc.build", &a).await.len(), 3, "the log has all");
}

pub(super) async fn one_of_many_claimers_wins_each_piece(s: &mut Story) {
    const WORKERS: u8 = 12;
    let asks = agent(20);
    for n in 0..WORKERS {
        serves(s, &agent(n)).await;
    }
    for round in 0..20 {
        let entry = requests(s, &asks, &["build"]).await;
        let claims = (0..WORKERS).map(|n| s.store.claim(work(&agent(n), &entry, T0), LEASE));
        let outcomes = together(claims).await;
        let won = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Ok(ClaimOutcome::Claimed { take: 1, .. })))
            .count();
        assert_eq!(won, 1, "round {round}: {outcomes:?}");
    }
}

pub(super) async fn claims_survive_a_restart(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    serves(s, &c).await;
    let held = requests(s, &b, &["build"]).await;
    let ended = requests(s, &b, &["build"]).await;
    let open = requests(s, &b, &["build"]).await;
    claim(s, &a, &held, T0).await;
    claim(s, &a, &ended, T0).await;
    finish(s, &a, &ended, T0).await;
    s.reopen().await;
    assert_eq!(waits(s, &c, "build", T0).await, [open.id.to_string()]);
    assert!(matches!(
        claim(s, &c, &held, T0).await,
        ClaimOutcome::Refused { holder: Some(_) }
    ));
    assert_eq!(claim(s, &c, &ended, T0).await, NO);
    assert_eq!(renew(s, &a, &held, 1, T0).await, taken(1, T0));
    assert_eq!(finish(s, &a, &held, T0).await, CompleteOutcome::Completed);
}

pub(super) async fn who_leaves_holds_nothing(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    serves(s, &c).await;
    let entry = requests(s, &b, &["build"]).await;
    claim(s, &c, &entry, T0).await;
    s.store.leave(&svc(), &c, T0).await.unwrap();
    assert_eq!(claim(s, &c, &entry, T0).await, ClaimOutcome::NotMember);
    assert_eq!(claim(s, &a, &entry, T0).await, taken(2, T0), "at once");
    s.store
        .remove_member(&svc(), &a, &c, false, T0)
        .await
        .unwrap();
    // It comes back as somebody who asks, and serves no more.
    requests(s, &c, &[]).await;
    assert_eq!(s.member("svc.build", &a, &c).await.service_role, None);
    assert_eq!(renew(s, &c, &entry, 1, T0).await, NO);
}

pub(super) async fn a_deleted_service_leaves_no_worker_and_no_work(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    serves(s, &a).await;
    serves(s, &c).await;
    let held = requests(s, &b, &["build"]).await;
    let open = requests(s, &b, &["build"]).await;
    claim(s, &c, &held, T0).await;
    s.store.delete_room(&svc(), &a).await.unwrap();
    serves(s, &b).await;
    assert_eq!(waits(s, &b, "build", T0).await, [""; 0]);
    assert_eq!(waits(s, &c, "build", T0).await, [""; 0]);
    for entry in [&held, &open] {
        assert_eq!(claim(s, &b, entry, T0).await, ClaimOutcome::NotWork);
        assert_eq!(claim(s, &c, entry, T0).await, ClaimOutcome::NotMember);
    }
    requests(s, &c, &[]).await;
    assert_eq!(s.member("svc.build", &b, &c).await.service_role, None);
}

pub(super) async fn work_of_other_rooms_is_unknown(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    s.open("r", &b).await;
    let elsewhere = Append {
        dispatch: vec!["build".into()],
        ..s.draft("r", &b)
    };
    let elsewhere = s.append(elsewhere).await;
    assert_eq!(waits(s, &a, "build", T0).await, [""; 0]);
    assert_eq!(claim(s, &a, &elsewhere, T0).await, ClaimOutcome::NotWork);
    assert_eq!(
        finish(s, &a, &elsewhere, T0).await,
        CompleteOutcome::NotWork
    );
}

pub(super) async fn work_goes_with_its_message(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    serves(s, &a).await;
    let held = requests(s, &b, &["build"]).await;
    let open = requests(s, &b, &["build"]).await;
    let kept = requests(s, &b, &["build"]).await;
    claim(s, &a, &held, T0).await;
    let (rule, step) = (
        MessageRule {
            before: i64::MAX,
            keep: 1,
        },
        StepSize {
            rows: 100,
            bytes: 1 << 20,
        },
    );
    let pruned = s.store.prune_room(&svc(), Seq(0), rule, step).await;
    assert_eq!(pruned.unwrap().deleted, 2);
    assert_eq!(waits(s, &a, "build", T0).await, [kept.id.to_string()]);
    for gone in [&held, &open] {
        assert_eq!(claim(s, &a, gone, T0).await, ClaimOutcome::NotWork);
        assert_eq!(finish(s, &a, gone, T0).await, CompleteOutcome::NotWork);
    }
    assert_eq!(claim(s, &a, &kept, T0).await, taken(1, T0));
}
