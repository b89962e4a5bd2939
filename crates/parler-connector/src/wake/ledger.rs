//! What the hub's ledger of turns adds to the decision whether a handoff wakes: a pure function.
//!
//! [`super::policy`] says that a handoff is meant for this agent; the ledger says whether its turn
//! is still to be had, and whether somebody else might take it at the same moment.

use std::time::Duration;

use parler_protocol::{Turn, TurnState};

/// The longest that an agent hesitates before it takes a turn that others may take as well: the
/// claims of many rarely meet then.
pub const MAX_HESITATION: Duration = Duration::from_secs(2);

/// What to do about a turn that would wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnWake {
    /// Only this agent may take it: wake the host, which takes it when it is shown.
    Wake,
    /// Others may take it too: take it first, and wake only who got it.
    TakeFirst,
    /// It is held, or over, or one's own: nobody is woken.
    No,
}

/// Decides for the agent of that id.
#[must_use]
pub fn wakes(turn: &Turn, me: &str) -> TurnWake {
    if turn.from.id == me || turn.state != TurnState::Open {
        return TurnWake::No;
    }
    match turn.audience {
        Some(audience) if audience.eligible <= 1 => TurnWake::Wake,
        _ => TurnWake::TakeFirst,
    }
}

/// How long to hesitate before a claim; `random` is in 0..1. Alone online: not at all. An idle
/// agent takes the shorter half.
#[must_use]
pub fn hesitation(turn: &Turn, idle: bool, random: f64) -> Duration {
    if turn.audience.is_some_and(|audience| audience.online <= 1) {
        return Duration::ZERO;
    }
    let random = random.clamp(0.0, 1.0);
    if idle {
        MAX_HESITATION.mul_f64(random / 2.0)
    } else {
        MAX_HESITATION.mul_f64(0.5 + random / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::EndpointRef;
    use parler_protocol::turn::Audience;

    fn turn(state: TurnState, eligible: u32, online: u32) -> Turn {
        let from = EndpointRef {
            id: "UA".into(),
            name: "planner".into(),
            role: None,
        };
        Turn {
            message: "m".into(),
            room: "r".into(),
            seq: 1,
            from,
            to: None,
            next: "go".into(),
            summary: None,
            bundle: None,
            state,
            taken_by: None,
            taken_at: None,
            lease_until: None,
            take: 0,
            offered_at: 0,
            finished_at: None,
            deadline: None,
            answered_at: None,
            note: None,
            result: None,
            seen_by: Vec::new(),
            stalled: None,
            audience: Some(Audience {
                eligible,
                online,
                listening: 0,
            }),
            history: None,
        }
    }

    #[test]
    fn only_an_open_turn_of_somebody_else_wakes() {
        use TurnState::{Cancelled, Declined, Done, Expired, Failed, Open, Taken};
        for (state, me, eligible, want) in [
            (Open, "UB", 1, TurnWake::Wake),
            (Open, "UB", 2, TurnWake::TakeFirst),
            (Open, "UA", 1, TurnWake::No),
            (Taken, "UB", 1, TurnWake::No),
            (Done, "UB", 1, TurnWake::No),
            (Failed, "UB", 1, TurnWake::No),
            (Declined, "UB", 1, TurnWake::No),
            (Cancelled, "UB", 1, TurnWake::No),
            (Expired, "UB", 2, TurnWake::No),
        ] {
            assert_eq!(wakes(&turn(state, eligible, 1), me), want, "{state:?} {me}");
        }
        let mut unknown = turn(Open, 1, 1);
        unknown.audience = None;
        assert_eq!(wakes(&unknown, "UB"), TurnWake::TakeFirst, "to be safe");
    }

    #[test]
    fn who_is_alone_does_not_hesitate_and_the_idle_are_quicker() {
        let many = turn(TurnState::Open, 3, 3);
        assert_eq!(
            hesitation(&turn(TurnState::Open, 3, 1), false, 0.9),
            Duration::ZERO
        );
        assert!(hesitation(&many, true, 1.0) <= hesitation(&many, false, 0.0));
        assert_eq!(hesitation(&many, false, 7.0), MAX_HESITATION);
        assert_eq!(hesitation(&many, true, 0.0), Duration::ZERO);
    }
}
