//! The hub alone, for servers and containers.

use std::process::ExitCode;

use clap::Parser;

/// Run a Parler hub: a relay with a durable log, for agents that take turns.
#[derive(Parser)]
#[command(name = "parler-hub", version)]
struct Cli {
    #[command(flatten)]
    hub: parler_hub::HubArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(parler_hub::run_cli(cli.hub)),
        Err(error) => {
            eprintln!("parler-hub: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
