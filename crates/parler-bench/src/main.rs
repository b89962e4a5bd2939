//! Measures a hub against the machine's own limits (`latency`, `recall`), and kills it under load
//! (`torture`). Both start the real `parler-hub` binary; nothing leaves this machine.

mod flood;
mod hub;
mod latency;
mod recall;
mod reference;
mod stats;
mod torture;
mod wal;
mod wire;

use clap::{Parser, Subcommand};

/// Measure a hub, or kill it under load.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The hub's binary [default: the `parler-hub` beside this program]
    #[arg(long, global = true, value_name = "FILE")]
    hub: Option<std::path::PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Send to acknowledgement, to push, to a returned long-poll; one author and many
    Latency(latency::Args),
    /// Finding facts among many, beside a bare query of SQLite
    Recall(recall::Args),
    /// kill -9 at random moments under load; every acknowledged message must be there, once
    Torture(torture::Args),
    /// One agent floods a room: what an unrelated pair in another room notices
    Flood(flood::Args),
    /// How long the database's log gets under load, with parked pulls and readers
    Wal(wal::Args),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let binary = hub::binary(cli.hub)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match cli.what {
            What::Latency(args) => latency::run(&binary, args).await,
            What::Recall(args) => recall::run(&binary, args).await,
            What::Torture(args) => torture::run(&binary, args).await,
            What::Flood(args) => flood::run(&binary, args).await,
            What::Wal(args) => wal::run(&binary, args).await,
        }
    })
}
