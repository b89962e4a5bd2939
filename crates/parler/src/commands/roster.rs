//! `parler roster`.

use parler_protocol::RosterEntry;
use parler_protocol::ids::short_id;
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::{line, name, place, words};

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
        .map(|what| format!(": {}", words(what)));
    let attention = entry.attention.map(|mode| format!(", {}", mode.as_str()));
    let serves = entry
        .service_role
        .as_deref()
        .map(|role| format!(" serving {}", name(role)));
    format!(
        "  {} …{} [{}{}]{}{}",
        who(entry, me),
        line(short_id(&entry.id)),
        name(&entry.status),
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
        .map(|role| format!(" ({})", name(role)));
    let you = if entry.id == me { ", you" } else { "" };
    format!("{}{}{you}", name(&entry.name), role.unwrap_or_default())
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

    #[test]
    fn a_claim_forges_no_row() {
        let entry = RosterEntry {
            id: "UABCDEFGH".into(),
            name: "planner \u{2219}QTBSV7 \u{2714} (lead) …QTBSV7".into(),
            role: Some("lead) ·QTBSV7 ✓ (x".into()),
            status: "idle] ✓ …QTBSV7 [working".into(),
            activity: Some("x\n  owner …ABCDEF [idle]".into()),
            attention: None,
            service_role: None,
            last_seen: 0,
        };
        assert_eq!(
            row(&entry, "U"),
            "  planner QTBSV7 lead QTBSV7 (lead QTBSV7 x) …CDEFGH [idle QTBSV7 working]: \
             x owner ABCDEF idle"
        );
    }
}
