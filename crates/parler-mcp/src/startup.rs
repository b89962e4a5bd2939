//! Joining a session at the start, by the key that the host's configuration names.
//!
//! Runs beside the server, which never waits for it. What was said in the session stays unread:
//! the model has not asked for anything yet.

use std::time::Duration;

use parler_connector::{Redeemed, safe};
use tokio::time::{Instant, sleep};

use crate::error::ToolError;
use crate::state::Tools;

/// How long a hub that is away, or an owner who has to decide, is asked again.
const KEEP_TRYING: Duration = Duration::from_secs(30);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// Joins, and leaves a note for the next answer either way.
pub(crate) async fn join(tools: &Tools, key: &str) {
    match try_join(tools, key).await {
        Ok(room) => tools.note(format!(
            "Joined session '{}' at the start; it is active. What was said there is unread: call \
             parler_recv.",
            safe::token(&room)
        )),
        Err(error) => {
            tracing::warn!(%error, "PARLER_SESSION_KEY could not be used");
            tools.note(format!(
                "The session of PARLER_SESSION_KEY could not be joined: {error}. Join it with \
                 parler_join_session when that is settled."
            ));
        }
    }
    tools.starting(false);
}

async fn try_join(tools: &Tools, key: &str) -> Result<String, ToolError> {
    let code = crate::tools::code_of(tools, key).await?;
    let until = Instant::now() + KEEP_TRYING;
    let before = tools
        .agent
        .call(|client| async move { client.rooms().await })
        .await;
    let room = loop {
        let tried = tools.agent.call(|client| {
            let code = code.as_str();
            async move { client.redeem(code).await }
        });
        let again = match tried.await {
            Ok(Redeemed::Joined(joined)) => break joined.room,
            Ok(Redeemed::Pending { room }) => ToolError::Refused(format!(
                "the owner of '{}' has not admitted this agent yet",
                safe::token(&room)
            )),
            Err(error) if error.passes() => error,
            Err(error) => return Err(error),
        };
        if Instant::now() + PAUSE >= until {
            return Err(again);
        }
        sleep(PAUSE).await;
    };
    tools.enter(&room);
    crate::tools::arrive(tools, &room, &before.unwrap_or_default()).await;
    Ok(room)
}
