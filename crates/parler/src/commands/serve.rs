//! `parler serve`: registers as a worker of a service and shows the work that waits.
//!
//! It takes nothing: `parler task claim` does.

use std::collections::BTreeSet;
use std::time::Duration;

use parler_connector::Client;
use parler_connector::wake::once::Once;
use parler_protocol::StoredMessage;
use serde_json::json;

use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::os::{self, Stop};
use crate::output::human::{line, place};
use crate::output::message::{self, Shown};
use crate::output::{self, Out};

/// Between two looks: work whose lease ran out comes back without a message.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Between two looks when messages stream: a burst costs two requests a second at most.
const LOOK_SPACING: Duration = Duration::from_millis(500);
/// After a call that failed because the hub is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Serve a role: register, and list the work that waits for it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler serve reviewer\n  parler serve reviewer --watch\n  parler task claim svc.reviewer MESSAGE"
)]
pub struct Args {
    /// The service; its name is your role there
    pub service: String,
    /// Go on: print each piece of work when it waits, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Wait until there is some, print it and end
    #[arg(long, conflicts_with = "watch")]
    pub once: bool,
    /// Pieces at most, up to 200 [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: Option<u32>,
}

impl Args {
    /// Whether it may take as long as it takes.
    pub fn waits(&self) -> bool {
        self.watch || self.once
    }
}

/// Registers and shows.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let room = client.serve(&args.service).await?;
    let serving = Serving {
        out: app.out,
        agent: &agent,
        client: &client,
        room: &room,
        args: &args,
    };
    if args.waits() {
        output::remark(&format!(
            "serving {} as {}; Ctrl-C ends it",
            place(&room),
            line(&agent.effective.name)
        ));
        return tokio::select! {
            done = serving.follow() => done,
            stop = os::stop_signal() => match stop {
                Stop::Interrupt => Err(CliError::new(Kind::Interrupted, "interrupted")),
                Stop::Terminate => Ok(()),
            },
        };
    }
    let work = serving.look().await?;
    let text = match work.as_slice() {
        [] => format!("you serve {}; no work waits", place(&room)),
        work => {
            let rows: Vec<String> = work.iter().map(|piece| serving.text(piece)).collect();
            format!("you serve {}\n{}", place(&room), rows.join("\n"))
        }
    };
    client.close().await;
    let once = Once::open(&agent.identity.base, agent.config.id.as_str());
    let shown: Vec<_> = work
        .iter()
        .map(|m| Shown::new(m, &agent.me(), &once))
        .collect();
    app.out.both(
        &text,
        &json!({ "room": room, "role": args.service, "messages": shown }),
    )
}

struct Serving<'a> {
    out: Out,
    agent: &'a Agent,
    client: &'a Client,
    room: &'a str,
    args: &'a Args,
}

impl Serving<'_> {
    async fn look(&self) -> Result<Vec<StoredMessage>, parler_connector::ClientError> {
        let role = &self.args.service;
        self.client.queue(self.room, role, self.args.limit).await
    }

    /// A piece, and how to take it: only by an id that a shell takes for a word.
    fn text(&self, piece: &StoredMessage) -> String {
        let shown = message::line(piece, &self.agent.me(), self.out.paint);
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if !piece.id.bytes().all(plain) {
            return shown;
        }
        format!(
            "{shown}\n    take it: parler task claim {} {}",
            self.room, piece.id
        )
    }

    /// Shows what waits, and what comes to wait; what was taken and comes back is shown again.
    async fn follow(&self) -> CliResult {
        // A hub that cannot push is looked at now and then.
        let pushes = self.client.subscribe().await.unwrap_or(false);
        // Said again after every reconnect: who waits is given work.
        let _ = self.client.presence("waiting", None, None).await;
        let mut shown = BTreeSet::new();
        loop {
            match self.look().await {
                Ok(work) => {
                    for piece in &work {
                        if !shown.contains(&piece.id) {
                            self.show(piece).await?;
                        }
                    }
                    if self.args.once && !work.is_empty() {
                        return Ok(());
                    }
                    shown = work.into_iter().map(|piece| piece.id).collect();
                }
                Err(error) if error.is_outage() || error.retryable() => {
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK_SPACING).await;
            tokio::select! {
                _ = self.client.next_push(), if pushes => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Writes on a thread of its own, so that a reader that does not read holds up no signal.
    async fn show(&self, piece: &StoredMessage) -> CliResult {
        let text = match self.out.json {
            true => {
                let once = Once::open(&self.agent.identity.base, self.agent.config.id.as_str());
                output::json::line(&Shown::new(piece, &self.agent.me(), &once))
            }
            false => self.text(piece),
        };
        let written = tokio::task::spawn_blocking(move || output::write(&text)).await;
        written.map_err(|e| CliError::new(Kind::Internal, e.to_string()))?
    }
}
