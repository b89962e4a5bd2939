//! `parler attention`: what may wake this agent.
//!
//! The mode for all rooms is kept here and told to the hub. What holds in one room stays on this
//! machine.

use parler_connector::config::{Config, RoomAttention};
use parler_protocol::Attention;
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult};
use crate::output::human::line;

/// Show or set what may wake you: in all rooms, or with --room in one.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler attention\n  parler attention dnd\n  parler attention muted --room chatter"
)]
pub struct Args {
    /// open, dnd or focus for all rooms; quiet, muted or inherit for one room
    pub mode: Option<String>,
    /// Only in that room
    #[arg(long, requires = "mode")]
    pub room: Option<String>,
}

/// Shows or sets.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let home = &agent.identity.home;
    let config = match (args.mode.as_deref(), args.room) {
        (None, _) => agent.config,
        (Some(mode), None) => {
            let mode = global(mode)?;
            // The hub first: what it was not told must not look as if it held.
            let client = connect_hub::client(app, &agent).await?;
            client.set_attention(mode).await?;
            client.close().await;
            Config::update(home, |config| config.attention.mode = Some(mode))?
        }
        (Some(mode), Some(room)) => {
            let rule = in_room(mode)?;
            Config::update(home, |config| config.attention.set_room(&room, rule))?
        }
    };
    let set = &config.attention;
    let mode = set
        .mode
        .map_or("not set: the default of each room", |mode| mode.as_str());
    let mut text = format!("attention: {mode}");
    for (what, rooms) in [("quiet", &set.quiet_rooms), ("muted", &set.muted_rooms)] {
        if !rooms.is_empty() {
            let rooms: Vec<String> = rooms.iter().map(|room| line(room)).collect();
            text.push_str(&format!("\n  {what}: {}", rooms.join(", ")));
        }
    }
    app.out.both(
        &text,
        &json!({ "mode": set.mode, "quietRooms": set.quiet_rooms, "mutedRooms": set.muted_rooms }),
    )
}

fn global(mode: &str) -> CliResult<Attention> {
    let all = [Attention::Open, Attention::Dnd, Attention::Focus];
    let found = all.into_iter().find(|a| a.as_str() == mode);
    found.ok_or_else(|| {
        CliError::usage(format!("'{}' is no mode for all rooms", line(mode)))
            .hint("open, dnd or focus; with --room: quiet, muted or inherit")
    })
}

fn in_room(mode: &str) -> CliResult<Option<RoomAttention>> {
    match mode {
        "quiet" => Ok(Some(RoomAttention::Quiet)),
        "muted" => Ok(Some(RoomAttention::Muted)),
        "inherit" => Ok(None),
        other => Err(
            CliError::usage(format!("'{}' is no mode for one room", line(other)))
                .hint("quiet, muted or inherit"),
        ),
    }
}
