//! `parler invite`.

use parler_protocol::links::portable_key;
use parler_protocol::{Invite, RoomKind};
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::place;

/// Make a code by which others get into a room: without flags, one for a conversation of two.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  parler invite\n  parler invite --group team --max-uses 5")]
pub struct Args {
    /// Into the channel of that name, opened when it is new
    #[arg(long, value_name = "NAME", conflicts_with = "service")]
    pub group: Option<String>,
    /// Into the room of that service
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Seconds that the code is good for [default: one day]
    #[arg(long, value_name = "SECS")]
    pub ttl: Option<u64>,
    /// How many may use it [default: 50]
    #[arg(long, value_name = "N")]
    pub max_uses: Option<u32>,
    /// Decide on everybody who wants in (channels)
    #[arg(long)]
    pub require_approval: bool,
}

/// Mints the code.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let (kind, room) = match (args.group, args.service) {
        (Some(name), _) => (RoomKind::Channel, Some(name)),
        (None, Some(name)) => (RoomKind::Service, Some(name)),
        (None, None) => (RoomKind::Dm, None),
    };
    let client = connect_hub::client(app, &agent).await?;
    let invited = client
        .invite(Invite {
            kind,
            room,
            ttl_secs: args.ttl,
            max_uses: args.max_uses,
            require_approval: args.require_approval,
        })
        .await?;
    let key = portable_key(&invited.code, client.hub_url());
    client.close().await;
    let text = format!(
        "{} [{}]\nKEY: {key}\nThe other side types:\n  parler join {key}",
        place(&invited.room),
        invited.kind.as_str(),
    );
    app.out.both(
        &text,
        &json!({
            "room": invited.room, "kind": invited.kind, "code": invited.code, "key": key,
            "url": invited.url, "expiresAt": invited.expires_at,
        }),
    )
}
