//! `parler completions SHELL`.

use clap::CommandFactory;

use crate::app::App;
use crate::cli::Cli;
use crate::error::CliResult;

/// Print a completion script for a shell.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler completions bash > ~/.local/share/bash-completion/completions/parler"
)]
pub struct Args {
    /// bash, elvish, fish, powershell or zsh
    pub shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(app: &App, args: Args) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "parler", &mut script);
    let script = String::from_utf8_lossy(&script);
    app.out
        .both(script.trim_end(), &serde_json::json!({ "script": script }))
}
