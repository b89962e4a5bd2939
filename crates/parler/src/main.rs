//! `parler`: the one binary that a user installs. Command line, MCP server, hooks, and the hub.
//!
//! This file parses, runs the command, and turns a failure into words and an exit code.

mod app;
mod cli;
mod commands;
mod connect_hub;
mod demo;
mod error;
mod hosts;
mod live;
mod local_hub;
mod os;
mod output;
mod text;

use std::process::ExitCode;

use clap::Parser;

use crate::app::{App, COMMAND_TIMEOUT};
use crate::cli::{Cli, Command};
use crate::error::{CliError, CliResult, Kind};

/// Threads beside the main one: a command talks to one hub.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.globals.json;
    match start(cli) {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}

/// Help goes to standard output, complaints to standard error; neither minds a closed pipe.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    // To a host the usual code of a wrong hook would mean: tell this to the model.
    let hook = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "hook");
    let code = match error.use_stderr() {
        false => 0,
        true if hook => Kind::Internal.code(),
        true => Kind::Usage.code(),
    };
    ExitCode::from(code)
}

fn start(cli: Cli) -> CliResult<ExitCode> {
    let runtime = match &cli.command {
        Command::Hub(args) if args.serves() => {
            // Before there are threads: a session of its own, for a hub in the background.
            args.settle();
            tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?
        }
        _ => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()?,
    };
    let quiet = matches!(cli.command, Command::Hook(_));
    let app = App::new(cli.globals, quiet);
    let done = runtime.block_on(run(&app, cli.command));
    // A thread that waits for standard input or a closed pipe must not keep the process.
    runtime.shutdown_background();
    done
}

async fn run(app: &App, command: Command) -> CliResult<ExitCode> {
    if command.waits() {
        return command.run(app).await;
    }
    tokio::select! {
        done = command.run(app) => done,
        () = tokio::time::sleep(COMMAND_TIMEOUT) => Err(CliError::new(
            Kind::Unreachable,
            format!("the hub did not answer within {} s", COMMAND_TIMEOUT.as_secs()),
        )
        .hint("what was asked may have happened all the same; look with parler recv --all")),
    }
}
