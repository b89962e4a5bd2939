//! Where a message goes: a room, an agent or a service, as a model names them.

use parler_connector::safe::model::label;
use parler_connector::{ClientError, safe};
use parler_protocol::{
    AgentId, ClientFrame, Discover, DiscoverScope, RosterEntry, ServerFrame, Target, clean,
};

use crate::error::ToolError;
use crate::state::Tools;

/// Rooms in which a name is looked up before the directory is asked.
const MAX_ROOMS_SEARCHED: usize = 20;
/// Cards of the directory that are looked through for a name.
const MAX_CARDS: u32 = 500;

/// What the arguments `room`, `to` and `service` say. At most one may be given; none means the
/// active session.
///
/// # Errors
/// Several are given, none is and no session is active, or a name means nobody or several.
pub(crate) async fn resolve(
    tools: &Tools,
    room: Option<&str>,
    to: Option<&str>,
    service: Option<&str>,
) -> Result<Target, ToolError> {
    match (room, to, service) {
        (room, None, None) => Ok(Target::Room {
            room: tools.room(room).await?,
        }),
        (None, Some(to), None) => Ok(Target::Dm {
            agent: agent(tools, to).await?,
        }),
        (None, None, Some(service)) => Ok(Target::Service {
            service: service.to_owned(),
        }),
        _ => Err(ToolError::refused(
            "give only one of room, to and service; none of them means the active session",
        )),
    }
}

/// The id of the agent that a full id or a name means.
async fn agent(tools: &Tools, named: &str) -> Result<String, ToolError> {
    let named = named.trim();
    if AgentId::parse(named).is_some() {
        return Ok(named.to_owned());
    }
    let mut found = in_my_rooms(tools, named).await?;
    if found.is_empty() {
        found = in_directory(tools, named).await?;
    }
    let me = tools.agent.id();
    found.retain(|(id, _)| *id != me);
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    match found.as_slice() {
        [(id, _)] => Ok(id.clone()),
        [] => Err(ToolError::Refused(format!(
            "no agent here is named '{}'. parler_roster lists the members of a room; a full id \
             (U…, 56 characters) always works",
            safe::name(named)
        ))),
        several => {
            let list: Vec<_> = several
                .iter()
                .map(|(id, name)| format!("{name} {id}"))
                .collect();
            Err(ToolError::Refused(format!(
                "'{}' means several agents, give the id: {}",
                safe::name(named),
                list.join(", ")
            )))
        }
    }
}

async fn in_my_rooms(tools: &Tools, named: &str) -> Result<Vec<(String, String)>, ToolError> {
    let rooms = tools
        .agent
        .call(|client| async move { client.rooms().await })
        .await?;
    let mut found = Vec::new();
    for room in rooms.iter().take(MAX_ROOMS_SEARCHED) {
        let members = members(tools, &room.name).await?;
        found.extend(
            members
                .into_iter()
                .filter(|member| same_name(&member.name, named))
                .map(|member| (member.id, label(&member.name))),
        );
    }
    Ok(found)
}

async fn in_directory(tools: &Tools, named: &str) -> Result<Vec<(String, String)>, ToolError> {
    let frame = ClientFrame::Discover(Discover {
        scope: DiscoverScope::Hub,
        query: Some(named.to_owned()),
        tag: None,
        skill: None,
        status: None,
        limit: Some(MAX_CARDS),
    });
    let asked = tools.agent.call(|client| {
        let frame = frame.clone();
        async move { client.request(frame).await }
    });
    match asked.await {
        Ok(ServerFrame::Directory(directory)) => Ok(directory
            .agents
            .into_iter()
            .filter(|entry| same_name(&entry.card.name, named))
            .map(|entry| (entry.card.id, label(&entry.card.name)))
            .collect()),
        Ok(_) => Ok(Vec::new()),
        Err(error) if error.unsupported() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The members of a room.
pub(crate) async fn members(tools: &Tools, room: &str) -> Result<Vec<RosterEntry>, ToolError> {
    tools
        .agent
        .call(|client| async move {
            let members: Result<_, ClientError> = client.roster(room).await;
            members
        })
        .await
}

fn same_name(name: &str, named: &str) -> bool {
    clean::name(name).to_lowercase() == clean::name(named).to_lowercase()
}
