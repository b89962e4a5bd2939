//! Where a message goes: a room, an agent or a service, as a model names them.

use parler_connector::ClientError;
use parler_connector::addressee::{Scope, Unclear};
use parler_connector::safe::model::label;
use parler_protocol::{RosterEntry, Target};

use crate::error::ToolError;
use crate::state::Tools;

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

/// The id of the agent that a full id, the end of one or a name means.
async fn agent(tools: &Tools, named: &str) -> Result<String, ToolError> {
    let found = tools
        .agent
        .call(|client| async move { client.find_agent(named, Scope::Everywhere).await })
        .await?;
    found
        .map(|agent| agent.id)
        .map_err(|why| ToolError::Refused(unclear(named, &why)))
}

/// What is wrong with a name, for a model.
pub(crate) fn unclear(named: &str, why: &Unclear) -> String {
    format!(
        "{}. parler_roster lists the members of a room; a full id (U…, 56 characters) always works",
        why.say(named, label)
    )
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
