//! `parler hub`: runs a hub in the foreground, or asks about the local one and stops it.

use std::process::ExitCode;

use parler_connector::home::base_home;
use serde_json::json;

use crate::app::App;
use crate::error::CliResult;
#[cfg(not(feature = "hub"))]
use crate::error::{CliError, Kind};
use crate::local_hub::{LocalHub, State};
use crate::os;

/// Run a hub; `hub status` and `hub stop` are about the local one.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler hub --addr 0.0.0.0:7070 --db hub.sqlite --join-secret-file secret\n  parler hub status\n  parler hub stop"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    #[cfg(feature = "hub")]
    #[command(flatten)]
    hub: parler_hub::HubArgs,
    /// Leave the terminal's session first
    #[arg(long, hide = true)]
    detached: bool,
    /// End when standard input is closed, so that the hub never outlives who started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Say whether the local hub runs, and where its files are
    Status,
    /// Stop the local hub; the next command that needs it starts it again
    Stop,
}

impl Args {
    /// Before there are threads: a session of its own. Failing means that it has one already.
    pub fn settle(&self) {
        if self.detached {
            let _ = os::new_session();
        }
    }

    /// Whether a hub is to be run, as opposed to being asked about.
    pub fn serves(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs it.
pub async fn run(app: &App, args: Args) -> CliResult<ExitCode> {
    match args.command {
        Some(Sub::Status) => status(app).map(|()| ExitCode::SUCCESS),
        Some(Sub::Stop) => stop(app).map(|()| ExitCode::SUCCESS),
        None => serve(args).await,
    }
}

#[cfg(feature = "hub")]
async fn serve(args: Args) -> CliResult<ExitCode> {
    if !args.until_stdin_closes {
        return Ok(parler_hub::run_cli(args.hub).await);
    }
    tokio::select! {
        code = parler_hub::run_cli(args.hub) => Ok(code),
        () = stdin_closed() => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(not(feature = "hub"))]
async fn serve(_args: Args) -> CliResult<ExitCode> {
    Err(
        CliError::new(Kind::Config, "this parler was built without a hub")
            .hint("install it with its default features, or run parler-hub"),
    )
}

#[cfg(feature = "hub")]
async fn stdin_closed() {
    use tokio::io::AsyncReadExt;
    let (mut stdin, mut sink) = (tokio::io::stdin(), [0; 64]);
    while matches!(stdin.read(&mut sink).await, Ok(n) if n > 0) {}
}

fn local(app: &App) -> CliResult<LocalHub> {
    Ok(LocalHub::of(&base_home(&app.cx)?))
}

fn status(app: &App) -> CliResult {
    let hub = local(app)?;
    let state = hub.state()?;
    let (word, holder) = match &state {
        State::Running(holder) => ("running", Some(holder)),
        State::Changing => ("changing", None),
        State::Stopped => ("stopped", None),
    };
    let url = hub.url();
    let files: Vec<String> = ["hub.sqlite", "hub.log"]
        .iter()
        .map(|name| hub.file(name).display().to_string())
        .collect();
    let says = match holder {
        Some(holder) => format!(
            "the local hub runs: process {}, {}",
            holder.pid, holder.addr
        ),
        None if state == State::Changing => "the local hub is starting or stopping".to_owned(),
        None => "the local hub does not run; the next command that needs it starts it".to_owned(),
    };
    let text = format!(
        "{says}\nurl:      {}\ndatabase: {}\nlog:      {}",
        url.as_deref().unwrap_or("chosen at the first start"),
        files[0],
        files[1],
    );
    app.out.both(
        &text,
        &json!({
            "state": word, "pid": holder.map(|h| h.pid), "addr": holder.map(|h| h.addr.to_string()),
            "started": holder.map(|h| h.started), "url": url, "database": files[0], "log": files[1],
        }),
    )
}

fn stop(app: &App) -> CliResult {
    let stopped = local(app)?.stop()?;
    let text = if stopped {
        "the local hub has stopped"
    } else {
        "the local hub does not run"
    };
    app.out.both(text, &json!({ "stopped": stopped }))
}
