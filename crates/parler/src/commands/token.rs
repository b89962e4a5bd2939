//! `parler token`, `parler session watch|admin`: who may look in over HTTP. A token is a secret: it
//! goes to standard output, once, and nowhere else.

use std::io::Read as _;

use parler_connector::Client;
use parler_protocol::links::{admin_link, http_url, watch_link};
use parler_protocol::{RevokeToken, RoomToken};
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::{count, place};

/// What standard input may hold: a token and white space.
const MAX_INPUT: u64 = 4096;

/// Make a token that shows the whole directory over HTTP, or revoke one.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  parler token --ttl 600\n  parler token revoke --room auth"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Seconds that it is good for, 30 days at most [default: one hour]
    #[arg(long, value_name = "SECS")]
    ttl: Option<u64>,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Revoke a token of any kind: its holders and their open streams are out at once
    Revoke(RevokeArgs),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct RevokeArgs {
    /// The token; `-` reads it from standard input, where no other program sees it
    #[arg(value_name = "TOKEN")]
    token: Option<String>,
    /// By the id that was shown when it was made
    #[arg(long)]
    id: Option<String>,
    /// All tokens for watching that room
    #[arg(long)]
    room: Option<String>,
}

/// Make a link by which a person watches a session of yours in a browser.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler session watch --full --ttl 28800")]
pub struct WatchArgs {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
    /// Seconds that it is good for, a year at most [default: one hour]
    #[arg(long, value_name = "SECS")]
    pub ttl: Option<u64>,
    /// Show the whole room: ids, signatures, every part, live
    #[arg(long)]
    pub full: bool,
}

/// Make a link by which a person decides for you, the owner, in a browser.
#[derive(clap::Args)]
pub struct AdminArgs {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
    /// Seconds that it is good for, a day at most [default: one hour]
    #[arg(long, value_name = "SECS")]
    pub ttl: Option<u64>,
}

/// Mints a directory token, or revokes.
pub async fn run(app: &App, args: Args) -> CliResult {
    match args.command {
        Some(Sub::Revoke(revoke)) => self::revoke(app, revoke).await,
        None => directory(app, args.ttl).await,
    }
}

async fn directory(app: &App, ttl: Option<u64>) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let minted = client.mint_directory_token(ttl).await?;
    let url = format!("{}/api/directory?scope=hub", http_url(client.hub_url()));
    client.close().await;
    let token = &minted.token;
    let id = minted.id.as_deref().unwrap_or("unknown");
    let text = format!(
        "TOKEN: {token}\nID: {id}\nIt shows every card of the hub:\n  \
         curl -H \"authorization: Bearer {token}\" \"{url}\""
    );
    app.out.both(
        &text,
        &json!({ "token": token, "id": minted.id, "expiresAt": minted.expires_at, "url": url }),
    )
}

async fn revoke(app: &App, args: RevokeArgs) -> CliResult {
    let token = match args.token {
        Some(dash) if dash == "-" => Some(from_input()?),
        given => given,
    };
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let which = RevokeToken {
        token,
        id: args.id,
        room: args.room,
    };
    let revoked = client.revoke_token(which).await?;
    client.close().await;
    let many = usize::try_from(revoked).unwrap_or(usize::MAX);
    let text = format!("{} revoked", count(many, "token"));
    app.out.both(&text, &json!({ "count": revoked }))
}

fn from_input() -> CliResult<String> {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_INPUT).read_to_string(&mut text);
    match read {
        Ok(_) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ => Err(CliError::new(
            Kind::Usage,
            "there is no token on standard input",
        )),
    }
}

/// Mints a watch token.
pub async fn watch(app: &App, args: WatchArgs) -> CliResult {
    let (minted, hub) = of_room(app, args.room.as_deref(), async |client, room| {
        client.mint_watch(room, args.ttl, args.full).await
    })
    .await?;
    let path = if args.full {
        "/api/room/messages"
    } else {
        "/api/session"
    };
    let sees = if args.full {
        "the whole room"
    } else {
        "its words and who is there"
    };
    let text = format!(
        "who has this link watches {} ({sees}) and changes nothing:\n  {}\n{}",
        place(&minted.room),
        watch_link(&hub, &minted.token),
        by_program(&minted, &format!("{}{path}", http_url(&hub)), ""),
    );
    shown(app, &text, &minted, &watch_link(&hub, &minted.token))
}

/// Mints an admin token.
pub async fn admin(app: &App, args: AdminArgs) -> CliResult {
    let (minted, hub) = of_room(app, args.room.as_deref(), async |client, room| {
        client.mint_admin(room, args.ttl).await
    })
    .await?;
    let act = format!("{}/api/room/admin/requests", http_url(&hub));
    let body = " -H \"content-type: application/json\" -d \"{}\"";
    let text = format!(
        "who has this link decides for you in {}: keep it to yourself\n  {}\n{}",
        place(&minted.room),
        admin_link(&hub, &minted.token),
        by_program(&minted, &act, body),
    );
    shown(app, &text, &minted, &admin_link(&hub, &minted.token))
}

fn by_program(minted: &RoomToken, url: &str, more: &str) -> String {
    let token = &minted.token;
    let id = minted.id.as_deref().unwrap_or("unknown");
    format!(
        "programs send the token in a header:\n  \
         curl -H \"authorization: Bearer {token}\"{more} \"{url}\"\n\
         end it with: parler token revoke --id {id}"
    )
}

fn shown(app: &App, text: &str, minted: &RoomToken, link: &str) -> CliResult {
    app.out.both(
        text,
        &json!({
            "room": minted.room, "token": minted.token, "id": minted.id,
            "expiresAt": minted.expires_at, "url": link,
        }),
    )
}

/// Mints a token of a room; the token, and the hub's address.
async fn of_room(
    app: &App,
    room: Option<&str>,
    mint: impl AsyncFnOnce(&Client, &str) -> Result<RoomToken, parler_connector::ClientError>,
) -> CliResult<(RoomToken, String)> {
    let agent = app.agent(None)?;
    let room = agent.room(room)?;
    let client = connect_hub::client(app, &agent).await?;
    let minted = mint(&client, &room).await?;
    let hub = client.hub_url().to_owned();
    client.close().await;
    Ok((minted, hub))
}
