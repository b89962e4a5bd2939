//! `parler demo-agent`: hidden, one of the two processes of `parler demo`.

use crate::app::App;
use crate::demo::agent::{Role, play};
use crate::error::CliResult;

/// One of the two agents of the demo.
#[derive(clap::Args)]
pub struct Args {
    /// Which one
    #[arg(value_enum)]
    pub part: Role,
}

/// Plays its part.
pub async fn run(app: &App, args: Args) -> CliResult {
    play(app, args.part).await
}
