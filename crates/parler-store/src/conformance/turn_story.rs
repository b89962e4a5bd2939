//! Short ways to tell stories of turns.

use parler_protocol::{RoomName, TurnState};

use super::story::{Story, T0, agent};
use crate::{
    ActOutcome, Actor, Append, LedgerNotes, Offer, RedeemOutcome, Report, TakeOutcome, TurnClaim,
    TurnEnd, TurnFind, TurnStep, TurnView, TurnsFound,
};

/// A lease in these stories.
pub(super) const LEASE: i64 = 60_000;
pub(super) const STALL: i64 = 120_000;
/// Who is in them: the first opens the room.
pub(super) const CAST: [(&str, Option<&str>); 5] = [
    ("ann", Some("planner")),
    ("ben", Some("webdev")),
    ("cat", Some("webdev")),
    ("dan", None),
    ("eve", None),
];

pub(super) fn r() -> RoomName {
    RoomName::new("r")
}

pub(super) fn actor(n: u8) -> Actor {
    let (name, role) = CAST[usize::from(n)];
    Actor {
        id: agent(n),
        name: name.into(),
        role: role.map(Into::into),
    }
}

/// Logs the cast in, and puts the first `members` of it into the room.
pub(super) async fn cast(s: &Story, members: u8) {
    for n in 0..5 {
        let who = actor(n);
        let role = who.role.as_deref();
        s.store.hello(&who.id, &who.name, role, T0).await.unwrap();
    }
    let code = s.open("r", &agent(0)).await;
    for n in 1..members {
        let joined = s.redeem_at(code, &agent(n), T0 + i64::from(n)).await;
        assert!(matches!(joined, RedeemOutcome::Joined { .. }));
    }
}

pub(super) fn handoff(s: &Story, by: u8, to: Option<&str>) -> Append {
    let who = actor(by);
    let offer = Offer {
        next: "go on".into(),
        summary: None,
        to: to.map(Into::into),
        bundle: None,
        deadline: None,
    };
    Append {
        name: who.name,
        role: who.role,
        now: T0,
        ledger: Some(Box::new(LedgerNotes {
            offer: Some(offer),
            ..LedgerNotes::default()
        })),
        ..s.draft("r", &agent(by))
    }
}

/// Offers a turn; its message.
pub(super) async fn offer(s: &Story, by: u8, to: Option<&str>) -> String {
    s.append(handoff(s, by, to)).await.id.to_string()
}

pub(super) fn report(end: TurnState) -> LedgerNotes {
    LedgerNotes {
        report: Some(Report {
            end,
            note: Some("said so".into()),
            result: None,
        }),
        ..LedgerNotes::default()
    }
}

pub(super) fn reply(s: &Story, by: u8, to: &str, notes: Option<LedgerNotes>, now: i64) -> Append {
    let who = actor(by);
    Append {
        name: who.name,
        role: who.role,
        now,
        reply_to: Some(to.into()),
        ledger: notes.map(Box::new),
        ..s.draft("r", &agent(by))
    }
}

pub(super) fn claiming(by: u8, message: &str, now: i64) -> TurnClaim {
    TurnClaim {
        by: actor(by),
        room: r(),
        message: message.into(),
        renews: None,
        lease: LEASE,
        now,
    }
}

pub(super) async fn claim(s: &Story, by: u8, message: &str, now: i64) -> TakeOutcome {
    s.store
        .claim_turn(claiming(by, message, now))
        .await
        .unwrap()
}

pub(super) fn won(take: i64, now: i64) -> TakeOutcome {
    TakeOutcome::Won {
        take,
        lease_until: now + LEASE,
    }
}

pub(super) fn step(by: u8, message: &str, now: i64) -> TurnStep {
    TurnStep {
        by: actor(by),
        room: r(),
        message: message.into(),
        take: None,
        note: None,
        now,
    }
}

pub(super) fn end(by: u8, message: &str, end: TurnState, take: Option<i64>, now: i64) -> TurnEnd {
    TurnEnd {
        step: TurnStep {
            take,
            note: Some("all well".into()),
            ..step(by, message, now)
        },
        end,
        result: Some("blob".into()),
    }
}

pub(super) async fn finish(
    s: &Story,
    by: u8,
    message: &str,
    take: Option<i64>,
    now: i64,
) -> ActOutcome {
    let end = end(by, message, TurnState::Done, take, now);
    s.store.complete_turn(end).await.unwrap()
}

pub(super) async fn view(s: &Story, message: &str) -> TurnView {
    let view = s.store.turn_view(message.into()).await.unwrap();
    view.unwrap_or_else(|| panic!("no turn {message}"))
}

pub(super) async fn state(s: &Story, message: &str) -> TurnState {
    view(s, message).await.row.turn.state
}

pub(super) fn all(by: u8) -> TurnFind {
    TurnFind {
        by: actor(by),
        room: None,
        message: None,
        states: TurnState::ALL.to_vec(),
        mine: false,
        limit: 500,
        after: None,
    }
}

pub(super) async fn find(s: &Story, find: TurnFind) -> TurnsFound {
    s.store.turns(find).await.unwrap().expect("a member asks")
}

pub(super) fn messages(found: &TurnsFound) -> Vec<&str> {
    let turns = found.turns.iter();
    turns.map(|view| view.row.turn.message.as_str()).collect()
}

/// A turn's transitions in short words, as a member sees them.
pub(super) async fn history(s: &Story, message: &str) -> Vec<String> {
    let one = TurnFind {
        message: Some(message.into()),
        ..all(0)
    };
    let mut found = find(s, one).await;
    let lines = found.turns.remove(0).history.unwrap();
    let line = |t: parler_protocol::turn::Transition| {
        let (from, to) = (t.from.as_str(), t.to.as_str());
        format!("{} {from} {to} {}", t.by.name, t.note.unwrap_or_default())
    };
    lines.into_iter().map(line).collect()
}
