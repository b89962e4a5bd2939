//! The turn ledger: one case a promise.

use parler_protocol::{RoomName, Seq, TurnState};

use super::story::{Story, T0, agent, together};
use super::turn_story::{
    LEASE, STALL, actor, all, cast, claim, claiming, end, find, finish, handoff, history, messages,
    offer, r, reply, report, state, step, view, won,
};
use crate::{
    ActOutcome, Actor, Append, Appended, LedgerNotes, MessageRule, NameOutcome, PolicyChange,
    PolicyOutcome, RedeemOutcome, RoomPolicyRow, StepSize, TakeOutcome, TurnClaim, TurnFind,
    TurnStep,
};

pub(super) async fn every_handoff_has_exactly_one_turn(s: &mut Story) {
    cast(s, 2).await;
    s.say("r", &agent(0)).await;
    let keyed = Append {
        client_id: Some("key".into()),
        digest: Some([1; 32]),
        ..handoff(s, 0, Some(" Ben "))
    };
    let id = s.append(keyed.clone()).await.id.to_string();
    let repeat = s.store.append(keyed).await.unwrap();
    assert!(matches!(repeat, Appended::Repeat { .. }));
    for _ in 0..2 {
        let found = find(s, all(1)).await;
        assert_eq!(messages(&found), [&id]);
        let row = &found.turns[0].row;
        assert_eq!((row.turn.state, row.turn.take), (TurnState::Open, 0));
        assert_eq!(row.turn.to.as_deref(), Some(" Ben "), "as written");
        assert_eq!(
            (row.turn.from.name.as_str(), row.turn.offered_at),
            ("ann", T0)
        );
        assert_eq!(found.turns[0].history, None, "only when one is asked for");
        s.reopen().await;
    }
}

pub(super) async fn of_claims_that_race_one_wins(s: &mut Story) {
    let s = &*s;
    cast(s, 5).await;
    for round in 0..20 {
        let id = offer(s, 0, None).await;
        let claims = (1..5).map(|n| s.store.claim_turn(claiming(n, &id, T0)));
        let outcomes: Vec<_> = together(claims).await;
        let winners: Vec<_> = (1..5)
            .zip(outcomes)
            .filter_map(|(n, outcome)| match outcome.unwrap() {
                TakeOutcome::Won { take: 1, .. } => Some(n),
                TakeOutcome::Lost { holder: Some(_) } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let holder = view(s, &id).await.row.turn.taken_by.unwrap();
        assert_eq!(holder.id, agent(winners[0]).as_str());
    }
}

pub(super) async fn a_claim_is_refused_for_the_first_reason_that_holds(s: &mut Story) {
    cast(s, 4).await;
    s.open("other", &agent(0)).await;
    let id = offer(s, 0, Some("ben")).await;
    assert_eq!(claim(s, 4, &id, T0).await, TakeOutcome::NotMember);
    assert_eq!(claim(s, 3, "none", T0).await, TakeOutcome::UnknownTurn);
    let elsewhere = TurnClaim {
        room: RoomName::new("other"),
        ..claiming(0, &id, T0)
    };
    let elsewhere = s.store.claim_turn(elsewhere).await.unwrap();
    assert_eq!(
        elsewhere,
        TakeOutcome::UnknownTurn,
        "a turn of another room"
    );
    for n in [0, 2, 3] {
        assert_eq!(claim(s, n, &id, T0).await, TakeOutcome::NotEligible, "{n}");
    }
    assert_eq!(claim(s, 1, &id, T0).await, won(1, T0));
    assert_eq!(
        claim(s, 2, &id, T0).await,
        TakeOutcome::NotEligible,
        "still"
    );
    let plain = s.say("r", &agent(0)).await.id.to_string();
    assert_eq!(claim(s, 1, &plain, T0).await, TakeOutcome::UnknownTurn);
}

pub(super) async fn who_may_claim_by_id_role_and_to_nobody(s: &mut Story) {
    cast(s, 4).await;
    let anyone = offer(s, 0, None).await;
    assert_eq!(claim(s, 3, &anyone, T0).await, won(1, T0));
    let role = offer(s, 0, Some("WEBDEV")).await;
    assert_eq!(claim(s, 3, &role, T0).await, TakeOutcome::NotEligible);
    assert_eq!(claim(s, 2, &role, T0).await, won(1, T0));
    let id = offer(s, 0, Some(agent(3).as_str())).await;
    assert_eq!(claim(s, 1, &id, T0).await, TakeOutcome::NotEligible);
    assert_eq!(claim(s, 3, &id, T0).await, won(1, T0));
}

pub(super) async fn a_renewal_keeps_the_take(s: &mut Story) {
    let s = &*s;
    cast(s, 3).await;
    let id = offer(s, 0, None).await;
    assert_eq!(claim(s, 1, &id, T0).await, won(1, T0));
    let rev = find(s, all(0)).await.rev;
    assert_eq!(claim(s, 1, &id, T0 + 5).await, won(1, T0 + 5));
    assert_eq!(find(s, all(0)).await.rev, rev, "no transition");
    let renew = |by, renews, now| {
        let claim = TurnClaim {
            renews: Some(renews),
            ..claiming(by, &id, now)
        };
        s.store.claim_turn(claim)
    };
    assert_eq!(renew(1, 1, T0 + 9).await.unwrap(), won(1, T0 + 9));
    for (by, renews) in [(1, 0), (1, 2), (2, 1)] {
        let outcome = renew(by, renews, T0 + 9).await.unwrap();
        assert!(matches!(&outcome, TakeOutcome::Lost { holder: Some(h) } if h.name == "ben"));
    }
    let late = renew(1, 1, T0 + 9 + LEASE).await.unwrap();
    assert_eq!(late, TakeOutcome::Lost { holder: None }, "open by then");
    assert_eq!(state(s, &id).await, TurnState::Open);
}

pub(super) async fn a_lease_runs_out_by_the_stored_time(s: &mut Story) {
    cast(s, 3).await;
    let (by_claim, by_clock) = (offer(s, 0, None).await, offer(s, 0, None).await);
    for id in [&by_claim, &by_clock] {
        assert_eq!(claim(s, 1, id, T0).await, won(1, T0));
    }
    s.reopen().await;
    let end = T0 + LEASE;
    assert!(matches!(
        claim(s, 2, &by_claim, end - 1).await,
        TakeOutcome::Lost { holder: Some(_) }
    ));
    assert_eq!(claim(s, 2, &by_claim, end).await, won(2, end));
    assert_eq!(s.store.turns_due().await.unwrap(), Some(end));
    assert_eq!(s.store.settle_turns(end - 1).await.unwrap(), 0);
    s.heard.take();
    assert_eq!(s.store.settle_turns(end).await.unwrap(), 1);
    assert_eq!(s.store.settle_turns(end).await.unwrap(), 0, "once");
    let told = s.heard.take();
    assert!(told.contains(&format!("{by_clock} is open")), "{told:?}");
    let row = view(s, &by_clock).await.row;
    assert_eq!((row.run_outs, row.last_holder.as_deref()), (1, Some("ben")));
    assert_eq!((row.turn.taken_by, row.turn.lease_until), (None, None));
    assert_eq!(
        history(s, &by_clock).await,
        ["ben open taken ", "ben taken open the lease ran out"]
    );
}

pub(super) async fn a_late_holder_changes_nothing(s: &mut Story) {
    cast(s, 3).await;
    let id = offer(s, 0, None).await;
    claim(s, 1, &id, T0).await;
    let later = T0 + LEASE;
    assert_eq!(claim(s, 2, &id, later).await, won(2, later));
    for take in [None, Some(1), Some(2)] {
        assert_eq!(finish(s, 1, &id, take, later).await, ActOutcome::Nothing);
        let release = TurnStep {
            take,
            ..step(1, &id, later)
        };
        let released = s.store.release_turn(release).await.unwrap();
        assert_eq!(released, ActOutcome::Nothing);
    }
    for take in [0, 1, 3] {
        let other = finish(s, 2, &id, Some(take), later).await;
        assert_eq!(other, ActOutcome::Nothing, "{take}");
    }
    assert_eq!(view(s, &id).await.row.turn.taken_by.unwrap().name, "cat");
    assert_eq!(finish(s, 2, &id, Some(2), later).await, ActOutcome::Done);
    // Its own lease ran out, and nobody else came: late is late.
    let id = offer(s, 0, None).await;
    claim(s, 1, &id, T0).await;
    assert_eq!(finish(s, 1, &id, Some(1), later).await, ActOutcome::Nothing);
    assert_eq!(claim(s, 1, &id, later).await, won(2, later));
}

pub(super) async fn the_holder_ends_it_and_the_end_is_final(s: &mut Story) {
    let s = &*s;
    cast(s, 3).await;
    for (n, state) in [TurnState::Done, TurnState::Failed, TurnState::Cancelled]
        .into_iter()
        .enumerate()
    {
        let id = offer(s, 0, None).await;
        let ended = |by| s.store.complete_turn(end(by, &id, state, None, T0 + 7));
        assert_eq!(ended(1).await.unwrap(), ActOutcome::Nothing, "open");
        claim(s, 1, &id, T0).await;
        assert_eq!(ended(2).await.unwrap(), ActOutcome::Nothing);
        assert_eq!(ended(1).await.unwrap(), ActOutcome::Done);
        let turn = view(s, &id).await.row.turn;
        assert_eq!((turn.state, turn.finished_at), (state, Some(T0 + 7)));
        assert_eq!(turn.note.as_deref(), Some("all well"));
        assert_eq!(
            (turn.result.as_deref(), turn.lease_until),
            (Some("blob"), None)
        );
        assert_eq!(ended(1).await.unwrap(), ActOutcome::Nothing, "once");
        let after = T0 + 10 * LEASE;
        let lost = TakeOutcome::Lost { holder: None };
        assert_eq!(claim(s, 1, &id, after).await, lost);
        assert_eq!(claim(s, 2, &id, after).await, lost);
        for refused in [
            s.store.release_turn(step(1, &id, after)).await.unwrap(),
            s.store.cancel_turn(step(0, &id, after)).await.unwrap(),
            s.store.decline_turn(step(1, &id, after)).await.unwrap(),
        ] {
            assert_eq!(refused, ActOutcome::Nothing);
        }
        s.store.settle_turns(after).await.unwrap();
        assert_eq!(view(s, &id).await.row.turn, turn, "round {n}");
    }
}

pub(super) async fn a_release_opens_it_and_takes_go_on_growing(s: &mut Story) {
    cast(s, 3).await;
    let id = offer(s, 0, None).await;
    for take in 1..4 {
        assert_eq!(claim(s, 1, &id, T0).await, won(take, T0));
        let release = TurnStep {
            take: Some(take),
            note: Some("later".into()),
            ..step(1, &id, T0)
        };
        let wrong = TurnStep {
            take: Some(take - 1),
            ..release.clone()
        };
        let wrong = s.store.release_turn(wrong).await.unwrap();
        assert_eq!(wrong, ActOutcome::Nothing);
        assert_eq!(
            s.store.release_turn(release.clone()).await.unwrap(),
            ActOutcome::Done
        );
        let again = s.store.release_turn(release).await.unwrap();
        assert_eq!(again, ActOutcome::Nothing, "open");
    }
    let row = view(s, &id).await.row;
    assert_eq!(
        (row.turn.take, row.turn.note.as_deref()),
        (3, Some("later"))
    );
    assert_eq!((row.run_outs, row.turn.taken_by), (0, None));
}

pub(super) async fn only_whom_it_names_declines(s: &mut Story) {
    let s = &*s;
    cast(s, 4).await;
    let decline = |by, id: String| s.store.decline_turn(step(by, &id, T0));
    for to in [None, Some("webdev")] {
        let id = offer(s, 0, to).await;
        for by in 0..4 {
            let outcome = decline(by, id.clone()).await.unwrap();
            assert_eq!(outcome, ActOutcome::Nothing, "{to:?} by {by}");
        }
        assert_eq!(state(s, &id).await, TurnState::Open);
    }
    let cat = agent(2);
    for to in ["cat", cat.as_str()] {
        let taken = offer(s, 0, Some(to)).await;
        claim(s, 2, &taken, T0).await;
        assert_eq!(decline(2, taken).await.unwrap(), ActOutcome::Nothing);
        let id = offer(s, 0, Some(to)).await;
        for by in [0, 1, 3] {
            assert_eq!(decline(by, id.clone()).await.unwrap(), ActOutcome::Nothing);
        }
        assert_eq!(decline(2, id.clone()).await.unwrap(), ActOutcome::Done);
        assert_eq!(state(s, &id).await, TurnState::Declined);
    }
    assert_eq!(decline(4, "x".into()).await.unwrap(), ActOutcome::NotMember);
    let unknown = decline(1, "x".into()).await.unwrap();
    assert_eq!(unknown, ActOutcome::UnknownTurn);
}

pub(super) async fn offerer_and_owner_withdraw_it(s: &mut Story) {
    let s = &*s;
    cast(s, 4).await;
    let cancel = |by, id: String| s.store.cancel_turn(step(by, &id, T0 + 1));
    for by in [0, 1] {
        for taken in [false, true] {
            let id = offer(s, 1, None).await;
            if taken {
                claim(s, 2, &id, T0).await;
            }
            for stranger in [2, 3] {
                let outcome = cancel(stranger, id.clone()).await.unwrap();
                assert_eq!(outcome, ActOutcome::NotOwner);
            }
            s.heard.take();
            assert_eq!(cancel(by, id.clone()).await.unwrap(), ActOutcome::Done);
            assert_eq!(s.heard.take(), [format!("{id} is cancelled")]);
            assert_eq!(finish(s, 2, &id, None, T0 + 1).await, ActOutcome::Nothing);
            assert_eq!(cancel(by, id).await.unwrap(), ActOutcome::Nothing);
        }
    }
    assert_eq!(
        cancel(2, "x".into()).await.unwrap(),
        ActOutcome::UnknownTurn
    );
    assert_eq!(cancel(4, "x".into()).await.unwrap(), ActOutcome::NotMember);
}

pub(super) async fn a_deadline_ends_an_open_turn_and_ends_with_the_first_take(s: &mut Story) {
    cast(s, 3).await;
    let with_deadline = || {
        let mut append = handoff(s, 0, None);
        if let Some(offer) = append.ledger.as_mut().and_then(|l| l.offer.as_mut()) {
            offer.deadline = Some(T0 + 100);
        }
        append
    };
    let (open, taken) = (with_deadline(), with_deadline());
    let open = s.append(open).await.id.to_string();
    let taken = s.append(taken).await.id.to_string();
    assert_eq!(view(s, &open).await.row.turn.deadline, Some(T0 + 100));
    assert_eq!(claim(s, 1, &taken, T0 + 99).await, won(1, T0 + 99));
    assert_eq!(s.store.turns_due().await.unwrap(), Some(T0 + 100));
    s.reopen().await;
    let lost = TakeOutcome::Lost { holder: None };
    assert_eq!(claim(s, 1, &open, T0 + 100).await, lost);
    assert_eq!(state(s, &open).await, TurnState::Expired);
    assert_eq!(
        history(s, &open).await,
        ["ann open expired the deadline passed"]
    );
    s.store
        .release_turn(step(1, &taken, T0 + 99))
        .await
        .unwrap();
    s.store.settle_turns(T0 + 10 * LEASE).await.unwrap();
    assert_eq!(state(s, &taken).await, TurnState::Open);
}

pub(super) async fn a_reply_that_reports_an_end_completes_it(s: &mut Story) {
    cast(s, 4).await;
    for by_holder in [false, true] {
        let id = offer(s, 0, Some("ben")).await;
        if by_holder {
            claim(s, 1, &id, T0).await;
        }
        for (by, now) in [(0, T0), (2, T0), (3, T0)] {
            let message = reply(s, by, &id, Some(report(TurnState::Done)), now);
            s.append(message).await;
        }
        assert!(!state(s, &id).await.terminal(), "by none of them");
        let message = reply(s, 1, &id, Some(report(TurnState::Failed)), T0 + 3);
        s.append(message).await;
        let turn = view(s, &id).await.row.turn;
        assert_eq!((turn.state, turn.take), (TurnState::Failed, 1));
        assert_eq!(turn.note.as_deref(), Some("said so"));
        assert_eq!(turn.taken_by.unwrap().name, "ben");
        assert_eq!(
            history(s, &id).await,
            ["ben open taken ", "ben taken failed said so"]
        );
    }
}

pub(super) async fn a_report_leaves_anothers_take_and_other_rooms_alone(s: &mut Story) {
    cast(s, 3).await;
    s.join("other", &agent(0), &[&agent(1)]).await;
    let id = offer(s, 0, None).await;
    let elsewhere = Append {
        room: RoomName::new("other"),
        ..reply(s, 1, &id, Some(report(TurnState::Done)), T0)
    };
    s.append(elsewhere).await;
    assert_eq!(state(s, &id).await, TurnState::Open);
    claim(s, 1, &id, T0).await;
    s.append(reply(s, 2, &id, Some(report(TurnState::Done)), T0))
        .await;
    assert_eq!(view(s, &id).await.row.turn.taken_by.unwrap().name, "ben");
    // But when that take ran out, the report counts.
    let later = T0 + LEASE;
    s.append(reply(s, 2, &id, Some(report(TurnState::Done)), later))
        .await;
    let turn = view(s, &id).await.row.turn;
    assert_eq!((turn.state, turn.take), (TurnState::Done, 2));
}

pub(super) async fn a_handoff_in_reply_passes_it_on(s: &mut Story) {
    cast(s, 3).await;
    let first = offer(s, 0, Some("ben")).await;
    let on = Append {
        reply_to: Some(first.clone()),
        ..handoff(s, 1, Some("cat"))
    };
    let second = s.append(on).await.id.to_string();
    let turn = view(s, &first).await.row.turn;
    assert_eq!(
        (turn.state, turn.note.as_deref()),
        (TurnState::Done, Some("passed on"))
    );
    assert_eq!(state(s, &second).await, TurnState::Open);
    let foreign = Append {
        reply_to: Some(second.clone()),
        ..handoff(s, 1, None)
    };
    s.append(foreign).await;
    assert_eq!(state(s, &second).await, TurnState::Open, "its own offerer");
}

pub(super) async fn a_plain_reply_of_the_holder_is_noted(s: &mut Story) {
    cast(s, 3).await;
    let id = offer(s, 0, None).await;
    s.append(reply(s, 1, &id, None, T0 + 1)).await;
    claim(s, 1, &id, T0 + 2).await;
    let progress = LedgerNotes {
        progress: true,
        ..LedgerNotes::default()
    };
    s.append(reply(s, 1, &id, Some(progress), T0 + 3)).await;
    s.append(reply(s, 2, &id, None, T0 + 4)).await;
    assert_eq!(view(s, &id).await.row.turn.answered_at, None);
    let rev = find(s, all(0)).await.rev;
    for now in [T0 + 5, T0 + 6] {
        s.append(reply(s, 1, &id, None, now)).await;
        let turn = view(s, &id).await.row.turn;
        assert_eq!(
            (turn.state, turn.answered_at),
            (TurnState::Taken, Some(T0 + 5))
        );
    }
    assert_eq!(find(s, all(0)).await.rev, rev + 1);
    s.store.release_turn(step(1, &id, T0 + 7)).await.unwrap();
    assert_eq!(view(s, &id).await.row.turn.answered_at, None);
}

pub(super) async fn a_name_means_who_used_it_first(s: &mut Story) {
    cast(s, 4).await;
    let impostor = Actor {
        name: "BEN ".into(),
        ..actor(3)
    };
    s.store.hello(&impostor.id, "BEN ", None, T0).await.unwrap();
    let id = offer(s, 0, Some("ben")).await;
    let as_impostor = |now| TurnClaim {
        by: impostor.clone(),
        ..claiming(3, &id, now)
    };
    let outcome = s.store.claim_turn(as_impostor(T0)).await.unwrap();
    assert_eq!(outcome, TakeOutcome::NotEligible);
    let names: Vec<_> = view(s, &id).await.candidates.into_iter().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].who.id, agent(1).as_str());
    // It is passed on when its bearer leaves, and comes back by the owner's word.
    s.store.leave(&r(), &agent(1), T0).await.unwrap();
    assert_eq!(
        s.store.claim_turn(as_impostor(T0)).await.unwrap(),
        won(1, T0)
    );
    let code = s.open("r", &agent(0)).await;
    s.redeem(code, &agent(1)).await;
    let second = offer(s, 0, Some("ben")).await;
    let bind = |by: u8, who: u8| {
        let store = s.store.clone();
        async move {
            store
                .bind_name(&r(), &agent(by), " Ben", &agent(who))
                .await
                .unwrap()
        }
    };
    assert_eq!(claim(s, 1, &second, T0).await, TakeOutcome::NotEligible);
    assert_eq!(bind(1, 1).await, NameOutcome::NotOwner);
    assert_eq!(bind(4, 1).await, NameOutcome::NotMember);
    assert_eq!(bind(0, 4).await, NameOutcome::Stranger);
    assert_eq!(bind(0, 1).await, NameOutcome::Bound);
    assert_eq!(claim(s, 1, &second, T0).await, won(1, T0));
    // Whoever holds a turn goes on holding it.
    let renewed = s.store.claim_turn(as_impostor(T0 + 1)).await.unwrap();
    assert_eq!(renewed, won(1, T0 + 1));
}

pub(super) async fn who_leaves_gives_its_turns_back(s: &mut Story) {
    cast(s, 4).await;
    let (a, b) = (offer(s, 0, None).await, offer(s, 0, None).await);
    claim(s, 1, &a, T0).await;
    claim(s, 2, &b, T0).await;
    s.store.leave(&r(), &agent(1), T0 + 1).await.unwrap();
    s.store
        .remove_member(&r(), &agent(0), &agent(2), false, T0 + 1)
        .await
        .unwrap();
    for (id, name) in [(a, "ben"), (b, "cat")] {
        let turn = view(s, &id).await.row.turn;
        assert_eq!((turn.state, turn.taken_by), (TurnState::Open, None));
        let lines = history(s, &id).await;
        assert_eq!(lines[1], format!("{name} taken open left"));
        assert_eq!(claim(s, 3, &id, T0 + 2).await, won(2, T0 + 2));
    }
}

pub(super) async fn a_deleted_room_takes_its_turns_along(s: &mut Story) {
    cast(s, 2).await;
    s.join("other", &agent(0), &[&agent(1)]).await;
    let id = offer(s, 0, None).await;
    let kept = Append {
        room: RoomName::new("other"),
        ..handoff(s, 0, None)
    };
    let kept = s.append(kept).await.id.to_string();
    claim(s, 1, &id, T0).await;
    let rev = find(s, all(1)).await.rev;
    s.store.delete_room(&r(), &agent(0)).await.unwrap();
    assert_eq!(s.store.turn_view(id.clone()).await.unwrap(), None);
    assert_eq!(messages(&find(s, all(1)).await), [&kept]);
    s.reopen().await;
    assert_eq!(s.store.settle_turns(T0 + LEASE).await.unwrap(), 0);
    cast(s, 2).await;
    assert_eq!(claim(s, 1, &id, T0).await, TakeOutcome::UnknownTurn);
    offer(s, 0, None).await;
    assert!(find(s, all(1)).await.rev > rev, "no revision is used twice");
}

async fn list(s: &Story, find: TurnFind) -> (Vec<String>, bool) {
    let found = s.store.turns(find).await.unwrap().expect("a member");
    let names = messages(&found).into_iter().map(Into::into).collect();
    (names, found.more)
}

pub(super) async fn turns_are_listed_newest_first_by_state_and_mine(s: &mut Story) {
    cast(s, 4).await;
    s.open("own", &agent(3)).await;
    let anyone = offer(s, 0, None).await;
    let bens = offer(s, 0, Some("ben")).await;
    let taken = offer(s, 0, None).await;
    let done = offer(s, 0, None).await;
    let mine = offer(s, 1, None).await;
    claim(s, 2, &taken, T0).await;
    claim(s, 1, &done, T0).await;
    finish(s, 1, &done, None, T0).await;
    let states = |states: &[TurnState]| TurnFind {
        states: states.to_vec(),
        ..all(1)
    };
    let active = [TurnState::Open, TurnState::Taken];
    let (newest, more) = list(s, states(&active)).await;
    assert_eq!(
        (newest.as_slice(), more),
        (
            [&mine, &taken, &bens, &anyone].map(Clone::clone).as_slice(),
            false
        )
    );
    assert_eq!(list(s, states(&[TurnState::Done])).await.0, [done.as_str()]);
    assert_eq!(list(s, states(&TurnState::ALL)).await.0.len(), 5);
    let (two, more) = list(s, TurnFind { limit: 2, ..all(1) }).await;
    assert_eq!(
        (two.as_slice(), more),
        ([&mine, &done].map(Clone::clone).as_slice(), true)
    );
    let for_me = |n| TurnFind {
        mine: true,
        states: active.to_vec(),
        ..all(n)
    };
    assert_eq!(list(s, for_me(1)).await.0, [bens.clone(), anyone.clone()]);
    assert_eq!(
        list(s, for_me(2)).await.0,
        [&mine, &taken, &anyone].map(Clone::clone)
    );
    let one = |message: &str, room: Option<&str>| TurnFind {
        message: Some(message.into()),
        room: room.map(RoomName::new),
        ..all(3)
    };
    assert_eq!(list(s, one(&done, Some("r"))).await.0, [done.as_str()]);
    assert_eq!(list(s, one(&done, Some("own"))).await.0, [""; 0]);
    assert_eq!(list(s, one("none", None)).await.0, [""; 0]);
    for (n, room) in [(4, "r"), (0, "own"), (0, "nowhere")] {
        let foreign = TurnFind {
            room: Some(RoomName::new(room)),
            ..all(n)
        };
        assert!(
            s.store.turns(foreign).await.unwrap().is_none(),
            "{n} {room}"
        );
    }
    assert_eq!(list(s, all(4)).await.0, [""; 0], "nowhere a member");
}

async fn changed(s: &Story, find: TurnFind) -> bool {
    let found = s.store.turns(find).await.unwrap();
    found.expect("a member asks").changed
}

pub(super) async fn revisions_grow_and_say_what_changed(s: &mut Story) {
    cast(s, 4).await;
    let after = |after| TurnFind {
        states: vec![TurnState::Open],
        after: Some(after),
        ..all(1)
    };
    let mut last = find(s, all(1)).await.rev;
    assert!(!changed(s, after(last)).await && changed(s, after(last + 1)).await);
    let id = offer(s, 0, None).await;
    assert!(changed(s, after(last)).await, "born");
    let now = find(s, all(1)).await.rev;
    assert!(now > last);
    last = now;
    claim(s, 1, &id, T0).await;
    assert!(
        changed(s, after(last)).await,
        "no longer among the open ones"
    );
    let taken = find(s, all(1)).await.rev;
    assert!(taken > last);
    finish(s, 1, &id, None, T0).await;
    assert!(
        !changed(s, after(taken)).await,
        "it was not shown, and is not"
    );
    assert!(changed(s, after(last)).await, "it was shown back then");
    let every = TurnFind {
        after: Some(taken),
        ..all(1)
    };
    assert!(changed(s, every.clone()).await);
    let other = TurnFind {
        message: Some("other".into()),
        ..every.clone()
    };
    assert!(!changed(s, other).await);
    let mine = TurnFind {
        mine: true,
        by: actor(2),
        ..every
    };
    assert!(!changed(s, mine).await, "neither before nor after");
    let rev = find(s, all(1)).await.rev;
    s.reopen().await;
    assert_eq!(find(s, all(1)).await.rev, rev);
}

async fn seen(s: &Story, id: &str) -> Vec<(String, bool, Option<i64>)> {
    let candidates = view(s, id).await.candidates.into_iter();
    candidates
        .map(|c| (c.who.name, c.seen, c.seen_at))
        .collect()
}

pub(super) async fn seen_is_what_the_stored_cursor_says(s: &mut Story) {
    cast(s, 4).await;
    let id = offer(s, 0, Some("webdev")).await;
    let seq = view(s, &id).await.row.turn.seq;
    let row = |name: &str, at: Option<i64>| (name.to_owned(), at.is_some(), at);
    assert_eq!(seen(s, &id).await, [row("ben", None), row("cat", None)]);
    for (n, to) in [(1, seq - 1), (3, seq), (0, seq)] {
        s.store
            .advance(&r(), &agent(n), Seq(to), T0 + 1)
            .await
            .unwrap();
    }
    assert_eq!(seen(s, &id).await, [row("ben", None), row("cat", None)]);
    s.store
        .advance(&r(), &agent(2), Seq(seq), T0 + 2)
        .await
        .unwrap();
    assert_eq!(
        seen(s, &id).await,
        [row("ben", None), row("cat", Some(T0 + 2))]
    );
    s.reopen().await;
    assert_eq!(
        seen(s, &id).await,
        [row("ben", None), row("cat", Some(T0 + 2))]
    );
}

pub(super) async fn a_stall_is_news_once(s: &mut Story) {
    let s = &*s;
    cast(s, 3).await;
    let id = offer(s, 0, None).await;
    let due = || async { s.store.turns_due().await.unwrap() };
    assert_eq!(due().await, Some(T0 + STALL));
    let seq = Seq(view(s, &id).await.row.turn.seq);
    s.store
        .advance(&r(), &agent(1), seq, T0 + 50)
        .await
        .unwrap();
    assert_eq!(due().await, Some(T0 + 50 + STALL), "from when it was read");
    s.store
        .advance(&r(), &agent(2), seq, T0 + 70)
        .await
        .unwrap();
    assert_eq!(due().await, Some(T0 + 50 + STALL), "by the first of them");
    let rev = find(s, all(0)).await.rev;
    assert_eq!(s.store.settle_turns(T0 + 50 + STALL).await.unwrap(), 1);
    assert_eq!(find(s, all(0)).await.rev, rev + 1);
    assert_eq!((due().await, state(s, &id).await), (None, TurnState::Open));
    assert_eq!(s.store.note_stalled(vec![id.clone()]).await.unwrap(), 1);
    assert_eq!(find(s, all(0)).await.rev, rev + 2);
    claim(s, 1, &id, T0).await;
    assert_eq!(s.store.note_stalled(vec![id]).await.unwrap(), 0, "not open");
}

pub(super) async fn an_active_turn_keeps_its_message(s: &mut Story) {
    cast(s, 2).await;
    let (open, taken, done) = (
        offer(s, 0, None).await,
        offer(s, 0, None).await,
        offer(s, 0, None).await,
    );
    claim(s, 1, &taken, T0).await;
    claim(s, 1, &done, T0).await;
    finish(s, 1, &done, None, T0).await;
    s.say("r", &agent(0)).await;
    let rule = MessageRule {
        before: i64::MAX,
        keep: 0,
    };
    let step = StepSize {
        rows: 100,
        bytes: u64::MAX,
    };
    let pruned = s.store.prune_room(&r(), Seq(0), rule, step).await.unwrap();
    assert_eq!(pruned.deleted, 2);
    assert_eq!(messages(&find(s, all(1)).await), [&taken, &open]);
    assert_eq!(s.store.turn_view(done.clone()).await.unwrap(), None);
    assert_eq!(claim(s, 1, &done, T0).await, TakeOutcome::UnknownTurn);
    assert_eq!(finish(s, 1, &taken, None, T0).await, ActOutcome::Done);
    let pruned = s.store.prune_room(&r(), Seq(0), rule, step).await.unwrap();
    assert_eq!(pruned.deleted, 1);
    assert_eq!(messages(&find(s, all(1)).await), [&open]);
}

pub(super) async fn a_room_has_settings(s: &mut Story) {
    let s = &*s;
    cast(s, 3).await;
    let change = |by: u8| PolicyChange {
        room: r(),
        by: agent(by),
        hop_limit: None,
        handoff_hop_limit: None,
        require_approval: None,
        reset: false,
        now: T0,
    };
    let row = |hop_limit, handoff_hop_limit, require_approval| RoomPolicyRow {
        hop_limit,
        handoff_hop_limit,
        require_approval,
    };
    let read = |n: u8| {
        let store = s.store.clone();
        async move { store.room_policy(&r(), &agent(n)).await.unwrap() }
    };
    assert_eq!(read(1).await, Some(row(None, None, false)));
    assert_eq!(read(4).await, None);
    let set = |change| s.store.set_room_policy(change);
    assert_eq!(set(change(1)).await.unwrap(), PolicyOutcome::NotOwner);
    assert_eq!(set(change(4)).await.unwrap(), PolicyOutcome::NotMember);
    let hops = PolicyChange {
        hop_limit: Some(3),
        ..change(0)
    };
    let expected = PolicyOutcome::Set(row(Some(3), None, false));
    assert_eq!(set(hops).await.unwrap(), expected);
    let open = s.open("r", &agent(0)).await;
    let gate = |gated| PolicyChange {
        handoff_hop_limit: Some(9),
        require_approval: Some(gated),
        ..change(0)
    };
    let expected = PolicyOutcome::Set(row(Some(3), Some(9), true));
    assert_eq!(set(gate(true)).await.unwrap(), expected);
    assert!(matches!(
        s.redeem(open, &agent(3)).await,
        RedeemOutcome::Pending { new: true, .. }
    ));
    set(gate(false)).await.unwrap();
    assert!(matches!(
        s.redeem(open, &agent(3)).await,
        RedeemOutcome::Joined { .. }
    ));
}
