//! The janitor: every so often it deletes what may go, by the rules of [`crate::config::Retention`].
//!
//! It works in steps, each one short transaction, with a pause after each: a request that comes
//! meanwhile waits for one step at most. A hub that is killed in between has done the steps that
//! it did; the next run goes on from there. The time is handed in.

use std::sync::Arc;

use parler_protocol::{RoomName, Seq};
use parler_store::{FactPlace, MessageRule, StepSize, StoreError};

use crate::state::HubState;
use crate::{defaults, now_ms};

/// What one run deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Invites that ended.
    pub invites: u64,
    /// Tokens that ended.
    pub tokens: u64,
    /// Messages.
    pub messages: u64,
    /// Facts without a key.
    pub facts: u64,
    /// Blobs.
    pub blobs: u64,
}

/// Runs for ever; the first time one interval after the start, so that a hub that keeps being
/// restarted does not begin with it each time.
pub(crate) async fn run(state: Arc<HubState>) {
    loop {
        tokio::time::sleep(state.config().retention.interval).await;
        match sweep(&state, now_ms()).await {
            Ok(swept) if swept == Swept::default() => tracing::debug!("nothing had to go"),
            Ok(swept) => tracing::info!(?swept, "retention"),
            Err(StoreError::Closed) => return std::future::pending().await,
            Err(error) => tracing::warn!(%error, "retention stopped early; it goes on next time"),
        }
    }
}

/// How much one step does.
const STEP: StepSize = StepSize {
    rows: defaults::SWEEP_ROWS,
    bytes: defaults::SWEEP_BYTES,
};

/// Deletes what may go at the time `now`. Ends early when the hub stops.
///
/// # Errors
/// What the store says; what was deleted until then is gone.
pub async fn sweep(state: &HubState, now: i64) -> Result<Swept, StoreError> {
    state.budgets().forget_idle(now);
    Ok(Swept {
        invites: invites(state, now).await?,
        tokens: tokens(state, now).await?,
        messages: messages(state, now).await?,
        facts: facts(state).await?,
        blobs: blobs(state, now).await?,
    })
}

/// Between two steps: lets the others have the writer. False when the hub stops.
async fn breathe(state: &HubState) -> bool {
    tokio::time::sleep(defaults::SWEEP_PAUSE).await;
    !*state.stopping().borrow()
}

async fn invites(state: &HubState, now: i64) -> Result<u64, StoreError> {
    let asked_before = now.saturating_sub(defaults::ASKED_GRACE_MS);
    let mut gone = 0;
    loop {
        let step = state
            .store()
            .sweep_invites(now, asked_before, defaults::SWEEP_ROWS)
            .await?;
        gone += u64::from(step);
        if step < defaults::SWEEP_ROWS || !breathe(state).await {
            return Ok(gone);
        }
    }
}

async fn tokens(state: &HubState, now: i64) -> Result<u64, StoreError> {
    let mut gone = 0;
    loop {
        let step = state
            .store()
            .sweep_tokens(now, defaults::SWEEP_ROWS)
            .await?;
        gone += u64::from(step);
        if step < defaults::SWEEP_ROWS || !breathe(state).await {
            return Ok(gone);
        }
    }
}

/// Blobs that nobody can read go in any case.
async fn blobs(state: &HubState, now: i64) -> Result<u64, StoreError> {
    let age = state.config().retention.blobs;
    let unused_since = age.map(|age| {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        now.saturating_sub(age)
    });
    let mut gone = 0;
    loop {
        let step = state.blobs().collect(unused_since).await?;
        gone += step as u64;
        if step == 0 || !breathe(state).await {
            return Ok(gone);
        }
    }
}

async fn messages(state: &HubState, now: i64) -> Result<u64, StoreError> {
    let retention = &state.config().retention;
    let Some(age) = retention.messages else {
        return Ok(0);
    };
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let rule = MessageRule {
        before: now.saturating_sub(age),
        keep: retention.keep_messages_per_room,
    };
    let mut gone = 0;
    let mut last: Option<RoomName> = None;
    loop {
        let rooms = state
            .store()
            .rooms_to_prune(last.as_ref(), rule, defaults::SWEEP_ROOMS)
            .await?;
        for room in &rooms {
            gone += one_room(state, room, rule).await?;
        }
        last = rooms.into_iter().next_back();
        if last.is_none() || !breathe(state).await {
            return Ok(gone);
        }
    }
}

async fn one_room(state: &HubState, room: &RoomName, rule: MessageRule) -> Result<u64, StoreError> {
    let (mut gone, mut after) = (0, Seq(0));
    loop {
        let step = state.store().prune_room(room, after, rule, STEP).await?;
        gone += u64::from(step.deleted);
        match step.next {
            Some(next) if breathe(state).await => after = next,
            _ => return Ok(gone),
        }
    }
}

async fn facts(state: &HubState) -> Result<u64, StoreError> {
    let Some(keep) = state.config().retention.keep_facts else {
        return Ok(0);
    };
    let (mut gone, mut from) = (0, FactPlace::START);
    loop {
        let step = state.store().sweep_facts(from, keep, STEP).await?;
        gone += u64::from(step.deleted);
        match step.next {
            Some(next) if breathe(state).await => from = next,
            _ => return Ok(gone),
        }
    }
}
