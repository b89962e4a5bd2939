//! Where a message goes: `--room`, `--to`, `--service`, or the active session.

use parler_connector::Client;
use parler_protocol::{AgentId, Discover, DiscoverScope, RosterEntry, Target};

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
    /// To one agent: its id, or its name when it shares a room with you or has a card
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

/// The id of the one agent of that name: in the caller's rooms, else by its card.
async fn by_name(name: &str, agent: &Agent, client: &Client) -> CliResult<String> {
    let me = agent.config.id.as_str();
    let known = room_mates(me, client).await?;
    let same = |other: &str| other.trim().eq_ignore_ascii_case(name.trim());
    let mut ids: Vec<String> = known
        .iter()
        .filter(|entry| same(&entry.name))
        .map(|entry| entry.id.clone())
        .collect();
    if ids.is_empty() {
        let search = Discover {
            query: Some(name.trim().to_owned()),
            ..everybody()
        };
        let cards = client.discover(search).await.unwrap_or_default();
        ids = cards
            .into_iter()
            .filter(|entry| same(&entry.card.name) && entry.card.id != me)
            .map(|entry| entry.card.id)
            .collect();
    }
    match ids.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(CliError::new(
            Kind::NotFound,
            format!(
                "nobody in your rooms or in the directory is called '{}'",
                line(name)
            ),
        )
        .hint(people(&known, me))),
        several => Err(CliError::new(
            Kind::NotFound,
            format!("several agents are called '{}'", line(name)),
        )
        .hint(format!("name one by its id: {}", several.join(", ")))),
    }
}

/// Everybody else in the caller's rooms.
async fn room_mates(me: &str, client: &Client) -> CliResult<Vec<RosterEntry>> {
    let mut known: Vec<RosterEntry> = Vec::new();
    for room in client.rooms().await?.iter().take(MAX_ROOMS_SEARCHED) {
        for entry in client.roster(&room.name).await? {
            if entry.id != me && known.iter().all(|other| other.id != entry.id) {
                known.push(entry);
            }
        }
    }
    Ok(known)
}

fn everybody() -> Discover {
    Discover {
        scope: DiscoverScope::Hub,
        query: None,
        tag: None,
        skill: None,
        status: None,
        limit: None,
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
