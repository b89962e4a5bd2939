//! `parler roster`.

use parler_protocol::RosterEntry;
use parler_protocol::ids::short_id;
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::{line, place};

/// List who is in a room.
#[derive(clap::Args)]
pub struct Args {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
}

/// Prints them.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let entries = client.roster(&room).await?;
    client.close().await;
    let me = agent.config.id.as_str();
    let lines: Vec<String> = entries.iter().map(|entry| row(entry, me)).collect();
    let text = format!("{}:\n{}", place(&room), lines.join("\n"));
    app.out
        .both(&text, &json!({ "room": room, "entries": entries }))
}

fn row(entry: &RosterEntry, me: &str) -> String {
    let activity = entry
        .activity
        .as_deref()
        .map(|what| format!(": {}", line(what)));
    let attention = entry.attention.map(|mode| format!(", {}", mode.as_str()));
    let serves = entry
        .service_role
        .as_deref()
        .map(|role| format!(" serving {}", line(role)));
    format!(
        "  {} …{} [{}{}]{}{}",
        who(entry, me),
        line(short_id(&entry.id)),
        line(&entry.status),
        attention.unwrap_or_default(),
        activity.unwrap_or_default(),
        serves.unwrap_or_default(),
    )
}

/// `name (role)`, with a word when it is the reader.
pub fn who(entry: &RosterEntry, me: &str) -> String {
    let role = entry
        .role
        .as_deref()
        .map(|role| format!(" ({})", line(role)));
    let you = if entry.id == me { ", you" } else { "" };
    format!("{}{}{you}", line(&entry.name), role.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_and_how() {
        let entry = RosterEntry {
            id: "UABCDEFGH".into(),
            name: "web\u{1b}dev".into(),
            role: Some("frontend".into()),
            status: "working".into(),
            activity: Some("login\npage".into()),
            attention: None,
            service_role: None,
            last_seen: 0,
        };
        assert_eq!(
            row(&entry, "UABCDEFGH"),
            "  webdev (frontend), you …CDEFGH [working]: login page"
        );
    }
}
