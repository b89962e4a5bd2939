//! Where a message goes: `--room`, `--to`, `--service`, or the active session.

use parler_connector::Client;
use parler_protocol::{AgentId, RosterEntry, Target};

use super::roster::who;
use crate::app::Agent;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::line;

/// Rooms in which a name is looked for, at most: one request each.
const MAX_ROOMS_SEARCHED: usize = 50;

/// The flags; at most one may be given.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(multiple = false)]
pub struct TargetArgs {
    /// To a room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
    /// To one agent: its id, or its name when it shares a room with you
    #[arg(long, value_name = "AGENT")]
    pub to: Option<String>,
    /// To a service
    #[arg(long)]
    pub service: Option<String>,
}

impl TargetArgs {
    /// Works out what the flags mean.
    ///
    /// # Errors
    /// No flag and no active session; a name that nobody has, or several.
    pub async fn find(&self, agent: &Agent, client: &Client) -> CliResult<Target> {
        if let Some(service) = &self.service {
            return Ok(Target::Service {
                service: service.clone(),
            });
        }
        if let Some(to) = &self.to {
            let agent = match AgentId::parse(to.trim()) {
                Some(id) => id.to_string(),
                None => by_name(to, agent, client).await?,
            };
            return Ok(Target::Dm { agent });
        }
        let room = agent.room(self.room.as_deref())?;
        Ok(Target::Room { room })
    }
}

/// The id of the one agent of that name in the caller's rooms.
async fn by_name(name: &str, agent: &Agent, client: &Client) -> CliResult<String> {
    let me = agent.config.id.as_str();
    let mut known: Vec<RosterEntry> = Vec::new();
    for room in client.rooms().await?.iter().take(MAX_ROOMS_SEARCHED) {
        for entry in client.roster(&room.name).await? {
            if entry.id != me && known.iter().all(|other| other.id != entry.id) {
                known.push(entry);
            }
        }
    }
    let named: Vec<&RosterEntry> = known
        .iter()
        .filter(|entry| entry.name.trim().eq_ignore_ascii_case(name.trim()))
        .collect();
    match named.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(CliError::new(
            Kind::NotFound,
            format!("nobody in your rooms is called '{}'", line(name)),
        )
        .hint(people(&known, me))),
        several => {
            let ids: Vec<&str> = several.iter().map(|entry| entry.id.as_str()).collect();
            Err(CliError::new(
                Kind::NotFound,
                format!("several agents are called '{}'", line(name)),
            )
            .hint(format!("name one by its id: {}", ids.join(", "))))
        }
    }
}

/// Who is there, in a sentence.
pub fn people(entries: &[RosterEntry], me: &str) -> String {
    if entries.is_empty() {
        return "nobody else is there yet".to_owned();
    }
    let names: Vec<String> = entries.iter().map(|entry| who(entry, me)).collect();
    format!("there are: {}", names.join("; "))
}
