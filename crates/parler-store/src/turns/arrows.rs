//! The arrows between a turn's states, apart from any database.
//!
//! ```text
//! open ── claim ──► taken ── complete ──► done, failed, cancelled
//!   ▲                 │ │
//!   └── release ──────┘ │
//!   └── lease ran out ──┘
//! open, taken ── cancel ──► cancelled
//! open ── decline ──► declined
//! open ── deadline passed ──► expired
//! ```

use parler_protocol::TurnState;

/// Where a turn stands. `A` names agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<A> {
    /// State.
    pub state: TurnState,
    /// Who holds it, or held it when it ended.
    pub holder: Option<A>,
    /// How often it was taken: the number of the present take is the holder's fencing token.
    pub take: i64,
    /// When the present take runs out, in milliseconds.
    pub lease_until: Option<i64>,
    /// When it expires if nobody ever took it, in milliseconds.
    pub deadline: Option<i64>,
}

/// What time alone does to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The lease ran out: open again.
    RanOut,
    /// The deadline passed: over.
    Expired,
}

/// What a claim comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claiming<A> {
    /// A new take.
    Taken(Standing<A>),
    /// The present take lives longer.
    Renewed(Standing<A>),
    /// Nothing changes.
    Lost,
}

impl<A: Clone + PartialEq> Standing<A> {
    /// A new turn.
    #[must_use]
    pub fn open(deadline: Option<i64>) -> Self {
        Standing {
            state: TurnState::Open,
            holder: None,
            take: 0,
            lease_until: None,
            deadline,
        }
    }

    /// What time has done to it by `now`. A lease and a deadline end with their last millisecond.
    #[must_use]
    pub fn lapse(&self, now: i64) -> Option<Lapse> {
        let over = |end: Option<i64>| end.is_some_and(|end| end <= now);
        match self.state {
            TurnState::Taken if over(self.lease_until) => Some(Lapse::RanOut),
            TurnState::Open if over(self.deadline) => Some(Lapse::Expired),
            _ => None,
        }
    }

    /// Where it stands after a lapse.
    #[must_use]
    pub fn lapsed(&self, lapse: Lapse) -> Self {
        match lapse {
            Lapse::RanOut => self.reopened(),
            Lapse::Expired => self.ended(TurnState::Expired),
        }
    }

    /// Whether `who` holds it, under the fencing token that it shows (none: by its id alone).
    #[must_use]
    pub fn held_by(&self, who: &A, take: Option<i64>) -> bool {
        self.state == TurnState::Taken
            && self.holder.as_ref() == Some(who)
            && take.is_none_or(|take| take == self.take)
    }

    /// A claim by an agent that may claim, or that holds it. With `renews` it is only a renewal of
    /// that take.
    #[must_use]
    pub fn claim(&self, who: &A, renews: Option<i64>, until: i64) -> Claiming<A> {
        if self.held_by(who, renews) {
            return Claiming::Renewed(Standing {
                lease_until: Some(until),
                ..self.clone()
            });
        }
        if self.state != TurnState::Open || renews.is_some() {
            return Claiming::Lost;
        }
        Claiming::Taken(Standing {
            state: TurnState::Taken,
            holder: Some(who.clone()),
            take: self.take + 1,
            lease_until: Some(until),
            deadline: None,
        })
    }

    /// The holder ends it; `None` when nothing changes.
    #[must_use]
    pub fn complete(&self, who: &A, take: Option<i64>, end: TurnState) -> Option<Self> {
        (self.held_by(who, take) && end.terminal()).then(|| self.ended(end))
    }

    /// The holder gives it back.
    #[must_use]
    pub fn release(&self, who: &A, take: Option<i64>) -> Option<Self> {
        self.held_by(who, take).then(|| self.reopened())
    }

    /// Its addressee refuses it.
    #[must_use]
    pub fn decline(&self) -> Option<Self> {
        (self.state == TurnState::Open).then(|| self.ended(TurnState::Declined))
    }

    /// It is withdrawn.
    #[must_use]
    pub fn cancel(&self) -> Option<Self> {
        (!self.state.terminal()).then(|| self.ended(TurnState::Cancelled))
    }

    fn reopened(&self) -> Self {
        Standing {
            state: TurnState::Open,
            holder: None,
            lease_until: None,
            ..self.clone()
        }
    }

    fn ended(&self, state: TurnState) -> Self {
        Standing {
            state,
            lease_until: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Standing<char> {
        match Standing::open(Some(50)).claim(&'a', None, 100) {
            Claiming::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_open_turn_is_taken_and_its_deadline_ends() {
        let taken = taken();
        assert_eq!((taken.take, taken.deadline), (1, None));
        assert_eq!(taken.lapse(99), None);
        assert_eq!(taken.lapse(100), Some(Lapse::RanOut));
        let open = taken.lapsed(Lapse::RanOut);
        assert_eq!((open.state, open.take), (TurnState::Open, 1));
        assert_eq!(
            open.lapse(i64::MAX),
            None,
            "the deadline does not come back"
        );
    }

    #[test]
    fn a_claim_of_a_taken_turn_renews_or_is_lost() {
        let taken = taken();
        assert_eq!(taken.claim(&'b', None, 200), Claiming::Lost);
        for renews in [None, Some(1)] {
            let Claiming::Renewed(longer) = taken.claim(&'a', renews, 200) else {
                panic!("{renews:?}");
            };
            assert_eq!((longer.take, longer.lease_until), (1, Some(200)));
        }
        for wrong in [0, 2, -1] {
            assert_eq!(taken.claim(&'a', Some(wrong), 200), Claiming::Lost);
        }
        let open = taken.release(&'a', None);
        let open = open.expect("its holder gives it back");
        assert_eq!(open.claim(&'a', Some(1), 200), Claiming::Lost);
        assert!(matches!(open.claim(&'a', None, 200), Claiming::Taken(t) if t.take == 2));
    }

    #[test]
    fn only_the_present_take_ends_or_releases() {
        let taken = taken();
        for (who, take) in [('b', None), ('a', Some(0)), ('a', Some(2)), ('b', Some(1))] {
            assert_eq!(taken.complete(&who, take, TurnState::Done), None);
            assert_eq!(taken.release(&who, take), None);
        }
        assert_eq!(taken.complete(&'a', Some(1), TurnState::Open), None);
        let done = taken.complete(&'a', Some(1), TurnState::Done);
        assert_eq!(
            done.map(|d| (d.state, d.lease_until)),
            Some((TurnState::Done, None))
        );
    }

    #[test]
    fn final_states_are_final() {
        for end in [
            TurnState::Done,
            TurnState::Failed,
            TurnState::Declined,
            TurnState::Cancelled,
            TurnState::Expired,
        ] {
            let over = taken().ended(end);
            assert_eq!(over.lapse(i64::MAX), None);
            assert_eq!(over.claim(&'a', None, 9), Claiming::Lost);
            assert_eq!(over.claim(&'a', Some(1), 9), Claiming::Lost);
            assert_eq!(over.complete(&'a', None, TurnState::Done), None);
            assert_eq!(over.release(&'a', None), None);
            assert_eq!((over.decline(), over.cancel()), (None, None));
        }
    }

    #[test]
    fn only_an_open_turn_is_declined_and_any_active_one_cancelled() {
        let open = Standing::<char>::open(None);
        assert!(open.decline().is_some() && open.cancel().is_some());
        assert!(taken().decline().is_none() && taken().cancel().is_some());
        assert_eq!(
            Standing::<char>::open(Some(5)).lapse(5),
            Some(Lapse::Expired)
        );
        assert_eq!(Standing::<char>::open(Some(5)).lapse(4), None);
    }
}
