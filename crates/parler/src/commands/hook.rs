//! `parler hook stop|rewake`: run by an agent host, never by a person.

use std::process::ExitCode;

use crate::app::App;
use crate::error::CliResult;
use crate::hosts::claude_code::hook::{self, Payload};
use crate::output;
use crate::output::json::line;

/// Exit code by which the host takes standard error for words to the model.
const TELL_MODEL: u8 = 2;

/// What a host's hooks run: they read the host's JSON on standard input.
///
/// `stop`, at the end of a turn: goes on when something waits for this agent. `rewake`, in the
/// background: wakes an idle session when something comes for it.
#[derive(clap::Args)]
pub struct Args {
    /// stop or rewake
    kind: String,
}

/// Runs it. Never fails: a hook that has nothing to say is silent.
pub async fn run(app: &App, args: Args) -> CliResult<ExitCode> {
    let nothing = Ok(ExitCode::SUCCESS);
    let stop = match args.kind.to_lowercase().as_str() {
        "stop" | "wake" => true,
        "rewake" => false,
        // A host takes some exit codes for words to the model: this is a word to the user.
        other => {
            output::note(&format!(
                "parler hook: there is no hook '{other}'; there are stop, rewake"
            ));
            return nothing;
        }
    };
    let Some(payload) = Payload::from_stdin().await else {
        return nothing;
    };
    // Somebody else wakes this session.
    if app.cx.truthy("PARLER_ACTIVE_CONVERSATION_MANAGED") {
        return nothing;
    }
    if stop {
        if let Some(reason) = hook::stop(app, &payload).await {
            let block = serde_json::json!({ "decision": "block", "reason": reason });
            // A host that does not listen any more is not told.
            let _ = output::write(&line(&block));
        }
        return nothing;
    }
    match hook::rewake(app, &payload).await {
        Some(text) => {
            output::note(&text);
            Ok(ExitCode::from(TELL_MODEL))
        }
        None => nothing,
    }
}
