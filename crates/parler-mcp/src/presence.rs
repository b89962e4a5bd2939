//! Telling the hub how this agent is, from what its calls show.
//!
//! A call means `working`, a parked wait `waiting`; when no call came for a while the model's turn
//! is over, which nobody tells: `idle`. Only the last word counts, so a hub that is slow or away is
//! told less, never later. Nothing is said before a session is active.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::state::Tools;

/// How often the present status is said again.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// How long after the last call a model counts as working: it thinks and uses other tools.
const WORKING_FOR: Duration = Duration::from_secs(120);
/// How long a status has to hold before it is said: quick calls do not flicker.
const SETTLE: Duration = Duration::from_millis(150);

/// Publishes for as long as it is polled.
pub(crate) async fn publish(tools: Arc<Tools>) {
    let mut session = tools.session.changes();
    let mut activity = tools.activity.changes();
    let mut said: Option<&'static str> = None;
    let mut again = Instant::now() + HEARTBEAT;
    loop {
        let now = status(&tools);
        // Without a session: one last word, then silence.
        let due = match now {
            Some(_) => said != now || Instant::now() >= again,
            None => said.is_some(),
        };
        if due {
            sleep(SETTLE).await;
            let settled = status(&tools);
            if settled != now {
                continue;
            }
            say(&tools, now.unwrap_or("idle")).await;
            said = now;
            again = Instant::now() + HEARTBEAT;
        }
        tokio::select! {
            changed = session.changed() => if changed.is_err() { return },
            changed = activity.changed() => if changed.is_err() { return },
            () = sleep_until(again), if said.is_some() => {}
            () = falls_idle(&tools), if said == Some("working") => {}
        }
    }
}

/// What to say; `None`: nothing, no session is active.
fn status(tools: &Tools) -> Option<&'static str> {
    tools.session.active()?;
    let recent = tools
        .activity
        .last()
        .is_some_and(|last| last.elapsed() < WORKING_FOR);
    Some(if tools.activity.at_work() {
        "working"
    } else if tools.activity.waiting() {
        "waiting"
    } else if recent {
        "working"
    } else {
        "idle"
    })
}

async fn falls_idle(tools: &Tools) {
    match tools.activity.last() {
        Some(last) => sleep_until(last + WORKING_FOR).await,
        None => std::future::pending().await,
    }
}

async fn say(tools: &Tools, status: &str) {
    let Ok(client) = tools.agent.client().await else {
        return;
    };
    if let Err(error) = client.presence(status, None, None).await {
        tracing::debug!(%error, status, "the presence was not taken");
    }
}
