//! `parler exit-codes`.

use crate::app::App;
use crate::error::{CliResult, EXIT_CODES};

/// List the exit codes.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {}

/// Prints the table.
pub fn run(app: &App, _args: Args) -> CliResult {
    app.out
        .both(EXIT_CODES, &serde_json::json!({ "text": EXIT_CODES }))
}
