//! Where a message goes: `--room`, `--to`, `--service`, or the active session.

use parler_connector::Client;
use parler_connector::addressee::{Candidate, Scope, Unclear};
use parler_protocol::{RosterEntry, Target};

use super::roster::who;
use crate::app::Agent;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::name;

/// The flags; at most one may be given.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(multiple = false)]
pub struct TargetArgs {
    /// To a room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
    /// To one agent: its id or the end of it, or its name when it shares a room with you or has a card
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
            let agent = find(client, to, Scope::Everywhere).await?.id;
            return Ok(Target::Dm { agent });
        }
        let room = agent.room(self.room.as_deref())?;
        Ok(Target::Room { room })
    }
}

/// The agent that is meant, by its id, the end of it, or its name.
///
/// # Errors
/// A name that nobody has, or several, or that only looks like somebody's.
pub async fn find(client: &Client, wanted: &str, scope: Scope<'_>) -> CliResult<Candidate> {
    let found = client.find_agent(wanted, scope).await?;
    found.map_err(|why| unclear(wanted, &why))
}

/// What is wrong with a name, as an error.
pub fn unclear(wanted: &str, why: &Unclear) -> CliError {
    let said = why.say(wanted, name);
    match why {
        Unclear::Empty | Unclear::Invisible | Unclear::Mistyped | Unclear::Reserved => {
            CliError::usage(said)
        }
        _ => CliError::new(Kind::NotFound, said),
    }
    .hint("see names and ids with: parler roster, parler discover --json")
}

/// Who is there, in a sentence.
pub fn people(entries: &[RosterEntry], me: &str) -> String {
    if entries.is_empty() {
        return "nobody else is there yet".to_owned();
    }
    let names: Vec<String> = entries.iter().map(|entry| who(entry, me)).collect();
    format!("there are: {}", names.join("; "))
}
