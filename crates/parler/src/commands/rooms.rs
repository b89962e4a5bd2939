//! `parler rooms`.

use parler_connector::safe;
use parler_protocol::RoomInfo;
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::count;

/// List your rooms and what is unread in them.
#[derive(clap::Args)]
pub struct Args {}

/// Prints them.
pub async fn run(app: &App, _args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let rooms = client.rooms().await?;
    client.close().await;
    let active = agent.active();
    let lines: Vec<String> = rooms
        .iter()
        .map(|room| row(room, active.as_deref()))
        .collect();
    let text = match lines.is_empty() {
        true => "no rooms yet; open a session: parler session open --topic NAME".to_owned(),
        false => lines.join("\n"),
    };
    app.out
        .both(&text, &json!({ "rooms": rooms, "active": active }))
}

/// Own messages are not unread for their author: the hub counts them, the listing does not.
pub fn unread(room: &RoomInfo) -> u32 {
    room.unread_others.unwrap_or(room.unread)
}

fn row(room: &RoomInfo, active: Option<&str>) -> String {
    let mark = if active == Some(room.name.as_str()) {
        "*"
    } else {
        " "
    };
    let members = count(room.members as usize, "member");
    format!(
        "{mark} {} [{}] {members}, {} unread",
        safe::token(&room.name),
        room.kind.as_str(),
        unread(room)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::RoomKind;

    #[test]
    fn own_messages_do_not_count_and_the_active_room_is_marked() {
        let mut room = RoomInfo {
            name: "auth".into(),
            kind: RoomKind::Channel,
            members: 2,
            unread: 5,
            unread_others: Some(2),
        };
        assert_eq!(
            row(&room, Some("auth")),
            "* auth [channel] 2 members, 2 unread"
        );
        room.unread_others = None;
        room.members = 1;
        assert_eq!(row(&room, None), "  auth [channel] 1 member, 5 unread");
    }
}
