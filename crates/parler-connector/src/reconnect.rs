//! When a lost connection is dialled again, what is repeated on the new one, and what is final.
//!
//! Decides and counts; does not dial.

use std::time::Duration;

use parler_protocol::ClientFrame;
use tokio::time::Instant;

use crate::error::ClientError;

/// Ceiling of the first pause; it doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Ceiling of all pauses: a hub that was away for long is found again within half a minute.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lived this long was a good one: the next failure counts as the first.
/// Without it a hub that takes logins and then falls over would be hammered.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// A call that somebody just made does not sit out a long pause, only up to this: hubs are
/// started by people who then try again.
const MAX_CALL_PAUSE: Duration = Duration::from_secs(1);
/// What must be left of a call's time for another try to make sense.
const LEAST_TRY: Duration = Duration::from_millis(50);

/// Pauses between tries: full jitter under a doubling ceiling, so that a fleet that lost its hub
/// at one moment does not come back at one moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = ceiling(self.failures).mul_f64(fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Forgets the failures.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

fn ceiling(failures: u32) -> Duration {
    let doubled = 2u32.checked_pow(failures).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(MAX_PAUSE)
}

/// When a connection may be dialled again, by whom.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    backoff: Backoff,
    connected_at: Option<Instant>,
    opens: Option<Instant>,
    opens_for_calls: Option<Instant>,
    failure: Option<ClientError>,
}

impl Gate {
    /// Notes a login.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
        self.failure = None;
    }

    /// Notes the end of a connection, or that none came about.
    pub(crate) fn failed(&mut self, error: ClientError, now: Instant) {
        let lived = self.connected_at.take().map(|since| now - since);
        if lived.is_some_and(|lived| lived >= STABLE_AFTER) {
            self.backoff.reset();
        }
        let pause = self.backoff.next();
        self.opens = Some(now + pause);
        self.opens_for_calls = Some(now + pause.min(MAX_CALL_PAUSE.mul_f64(fastrand::f64())));
        self.failure = Some(error);
    }

    /// When to dial without being asked; `None` when the failure is final.
    pub(crate) fn opens(&self, now: Instant) -> Option<Instant> {
        match &self.failure {
            Some(error) if is_final(error) => None,
            _ => Some(self.opens.unwrap_or(now)),
        }
    }

    /// When a call may dial: soon the first time, after the usual pause when it repeats itself,
    /// and once more before its time is up. `Err`: there is no time left, and this is why it
    /// fails.
    pub(crate) fn opens_for(
        &self,
        first_try: bool,
        now: Instant,
        deadline: Instant,
    ) -> Result<Instant, ClientError> {
        let Some(failure) = &self.failure else {
            return Ok(now);
        };
        let opens = if first_try {
            self.opens_for_calls
        } else {
            self.opens
        };
        let opens = opens.unwrap_or(now).max(now);
        let left = deadline.saturating_duration_since(now);
        if left < LEAST_TRY {
            return Err(failure.clone());
        }
        Ok(opens.min(now + left / 2))
    }
}

/// Whether dialling again by oneself is in vain: the hub refused this agent, or sent it away.
pub(crate) fn is_final(error: &ClientError) -> bool {
    error.is_authentication()
        || matches!(
            error,
            ClientError::Expelled { .. } | ClientError::BadUrl { .. }
        )
}

/// Whether doing it twice is the same as doing it once, so that a request may be repeated when
/// nobody knows whether the first one arrived.
pub(crate) fn idempotent(frame: &ClientFrame) -> bool {
    use ClientFrame as C;
    match frame {
        // By its key.
        C::Send(send) => send.client_id.is_some(),
        // With `ack` or `since` reading moves nothing; without, a lost reply is a lost message.
        C::Pull(pull) => pull.ack.is_some() || pull.since.is_some(),
        // With a key it replaces itself.
        C::Remember(remember) => remember.fact.key.is_some(),
        // A member is answered with `joined`, a waiting one with `join_pending`.
        C::Redeem(_) | C::Serve(_) => true,
        // A holder's second claim is a renewal of the same take.
        C::Claim(_) => true,
        C::Ping
        | C::Subscribe(_)
        | C::Unsubscribe
        | C::JoinRequests(_)
        | C::Rooms
        | C::Roster(_)
        | C::Queue(_)
        | C::Turns(_)
        | C::Presence(_)
        | C::SetAttention(_)
        | C::Register(_)
        | C::Discover(_)
        | C::Lookup(_)
        | C::Recall(_)
        | C::BindName(_)
        | C::RoomPolicy(_) => true,
        // Each of these mints something, or answers a second try with an error.
        C::Hello(_)
        | C::Invite(_)
        | C::ResolveJoin(_)
        | C::DeleteRoom(_)
        | C::Complete(_)
        | C::Release(_)
        | C::Decline(_)
        | C::Cancel(_)
        | C::MintDirectoryToken(_)
        | C::MintWatch(_)
        | C::MintAdmin(_)
        | C::PutBlob(_)
        | C::GetBlob(_)
        | C::Leave(_)
        | C::RemoveMember(_)
        | C::TransferOwner(_)
        | C::RevokeInvite(_)
        | C::RevokeToken(_) => false,
    }
}

/// Seconds for which a request may park on the hub; 0 when it does not.
pub(crate) fn parks_for(frame: &ClientFrame) -> u64 {
    match frame {
        ClientFrame::Pull(pull) => pull.wait_secs,
        ClientFrame::Redeem(redeem) => redeem.wait_secs,
        ClientFrame::Turns(turns) => turns.wait_secs,
        _ => None,
    }
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use parler_protocol::{Pull, RoomKind};

    use super::*;

    fn lost() -> ClientError {
        ClientError::Unreachable {
            url: "ws://h/ws".into(),
            reason: "refused".into(),
        }
    }

    #[test]
    fn pauses_double_up_to_a_cap_and_stay_below_their_ceiling() {
        assert_eq!(ceiling(0), FIRST_PAUSE);
        assert_eq!(ceiling(3), Duration::from_secs(2));
        assert_eq!(ceiling(7), MAX_PAUSE);
        assert_eq!(ceiling(u32::MAX), MAX_PAUSE);
        let mut backoff = Backoff::default();
        for n in 0..40 {
            assert!(backoff.next() <= ceiling(n));
        }
    }

    #[test]
    fn a_short_lived_connection_does_not_forget_the_failures() {
        let (mut gate, start) = (Gate::default(), Instant::now());
        for _ in 0..20 {
            gate.connected(start);
            gate.failed(lost(), start + Duration::from_secs(1));
        }
        assert_eq!(gate.backoff.failures, 20);
        gate.connected(start);
        gate.failed(lost(), start + STABLE_AFTER);
        assert_eq!(gate.backoff.failures, 1);
    }

    #[test]
    fn a_refused_login_is_not_dialled_again_by_itself_but_by_a_call() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.failed(
            ClientError::BadChallenge {
                url: "ws://h/ws".into(),
            },
            now,
        );
        assert_eq!(gate.opens(now), None);
        let deadline = now + Duration::from_secs(20);
        assert!(gate.opens_for(true, now, deadline).unwrap() <= now + MAX_CALL_PAUSE);
    }

    #[test]
    fn a_call_tries_again_before_its_time_is_up_and_then_tells_why_it_failed() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        for _ in 0..30 {
            gate.failed(lost(), now);
        }
        gate.opens = Some(now + MAX_PAUSE);
        let deadline = now + Duration::from_secs(4);
        let opens = gate.opens_for(false, now, deadline).unwrap();
        assert_eq!(opens, now + Duration::from_secs(2));
        let late = deadline - Duration::from_millis(10);
        assert_eq!(gate.opens_for(false, late, deadline), Err(lost()));
    }

    #[test]
    fn only_reads_that_move_nothing_are_repeated() {
        let pull = |since, ack| {
            ClientFrame::Pull(Pull {
                room: "r".into(),
                since,
                limit: None,
                wait_secs: None,
                ack,
            })
        };
        assert!(idempotent(&pull(None, Some(0))));
        assert!(idempotent(&pull(Some(0), None)));
        assert!(!idempotent(&pull(None, None)));
        assert!(!idempotent(&ClientFrame::Invite(parler_protocol::Invite {
            kind: RoomKind::Channel,
            room: None,
            ttl_secs: None,
            max_uses: None,
            require_approval: false,
        })));
    }
}
