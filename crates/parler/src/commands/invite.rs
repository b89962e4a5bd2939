//! `parler invite`.

use parler_protocol::links::{portable_key, split_key, tidy_code};
use parler_protocol::{Invite, RevokeInvite, RoomKind};
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::{self, place};

/// Make a code by which others get into a room: without flags, one for a conversation of two.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  parler invite\n  parler invite --group team --max-uses 5\n  parler invite revoke A3KELDJR"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
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

#[derive(clap::Subcommand)]
enum Sub {
    /// Take a code back: nobody joins by it any more
    Revoke(RevokeArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler invite revoke A3KELDJR\n  parler invite revoke --room auth"
)]
struct RevokeArgs {
    /// The code or key
    #[arg(required_unless_present_any = ["id", "room"], conflicts_with_all = ["id", "room"])]
    key: Option<String>,
    /// By the id that the hub gave the invite
    #[arg(long, conflicts_with = "room")]
    id: Option<String>,
    /// All codes of a room that you own
    #[arg(long)]
    room: Option<String>,
}

async fn revoke(app: &App, args: RevokeArgs) -> CliResult {
    let split = args.key.as_deref().map(split_key);
    let named = split.as_ref().and_then(|key| key.hub.as_deref());
    let which = RevokeInvite {
        code: split.as_ref().map(|key| tidy_code(&key.code)),
        id: args.id,
        room: args.room,
    };
    let agent = app.agent(None)?;
    let hub = connect_hub::place(app, &agent, named);
    let client = connect_hub::client_at(app, &agent, &hub).await?;
    let count = client.revoke_invite(which).await?;
    client.close().await;
    let text = match count {
        0 => "no code was open".to_owned(),
        n => format!(
            "{} revoked; nobody joins by it any more",
            human::count(n as usize, "code")
        ),
    };
    app.out.both(&text, &json!({ "count": count }))
}

/// Mints the code.
pub async fn run(app: &App, args: Args) -> CliResult {
    if let Some(Sub::Revoke(args)) = args.command {
        return revoke(app, args).await;
    }
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
            "url": invited.url, "expiresAt": invited.expires_at, "id": invited.id,
        }),
    )
}
