//! `parler demo`.

use crate::app::App;
use crate::demo::{stage, timeline};
use crate::error::{CliError, CliResult, Kind};
use crate::os;

/// Show two agents passing the turn: a hub, two processes, a timeline.
///
/// Everything happens in a temporary folder, on a free port, and is gone afterwards.
#[derive(clap::Args)]
pub struct Args {}

/// Plays it.
pub async fn run(app: &App, _args: Args) -> CliResult {
    let folder = tempfile::Builder::new().prefix("parler-demo-").tempdir()?;
    let played = tokio::select! {
        played = stage::play(folder.path()) => played,
        // Dropping the stage ends its children.
        _ = os::stop_signal() => Err(CliError::new(Kind::Interrupted, "interrupted")),
    };
    let gone = folder.close();
    let played = played?;
    gone.map_err(|e| CliError::new(Kind::Demo, format!("the demo's folder stays: {e}")))?;
    app.out.both(
        &timeline::words(&played, app.out.paint),
        &timeline::object(&played),
    )
}
