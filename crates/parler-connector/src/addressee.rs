//! Who is meant: from what a person or a model calls an agent to the one id that it has.
//!
//! Names are claims, so a name is never enough where two could be meant: an agent is taken by its
//! full id, by the end of its id, or by its name when exactly one has it. What cannot be seen, what
//! is reserved, and what looks like somebody else's name is refused with the reason.
//!
//! The commands and the MCP tools both ask here; they only word the hint their own way.

use parler_identity::parse_id;
use parler_protocol::ids::short_id;
use parler_protocol::lookalike::looks_like;
use parler_protocol::names::addressed;
use parler_protocol::{AgentId, Discover, DiscoverScope, ErrorCode, RosterEntry, clean};

use crate::directory::{CardState, check};
use crate::{Client, ClientError};

/// Rooms in which a name is looked for before the directory is asked: one request each.
const MAX_ROOMS_SEARCHED: usize = 50;
/// Cards of the directory that are looked through for a name: what a hub answers at most.
const MAX_CARDS: u32 = 500;
/// Agents that an error lists.
const MAX_LISTED: usize = 8;
/// Characters of the end of an id by which an agent may be called.
const SHORT_KEY: usize = 6;

/// Somebody who may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The id.
    pub id: String,
    /// What it calls itself; empty where only the id is known.
    pub name: String,
    /// The role that it claims.
    pub role: Option<String>,
}

impl From<&RosterEntry> for Candidate {
    fn from(entry: &RosterEntry) -> Self {
        Candidate {
            id: entry.id.clone(),
            name: entry.name.clone(),
            role: entry.role.clone(),
        }
    }
}

/// Why nobody in particular is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// Nothing was given.
    Empty,
    /// There are characters in it that cannot be seen.
    Invisible,
    /// A word that means nobody in particular.
    Reserved,
    /// It has the shape of an id, and is none.
    Mistyped,
    /// It is the one who asks.
    Myself,
    /// Nobody is called that. With those who are there.
    Nobody(Vec<Candidate>),
    /// Several are. With them.
    Several(Vec<Candidate>),
    /// It is not the name of, but looks like that of another.
    LooksLike(Candidate),
}

impl Unclear {
    /// What is wrong, in words; `claim` makes names of others fit to be shown.
    #[must_use]
    pub fn say(&self, wanted: &str, claim: fn(&str) -> String) -> String {
        let wanted = claim(wanted);
        match self {
            Unclear::Empty => "no agent is named".to_owned(),
            Unclear::Invisible => {
                format!("'{wanted}' was written with characters that cannot be seen; type it anew")
            }
            Unclear::Reserved => format!("'{wanted}' is a reserved word and no agent's name"),
            Unclear::Mistyped => "that id is mistyped: its checksum does not match".to_owned(),
            Unclear::Myself => format!("'{wanted}' is you"),
            Unclear::Nobody(there) if there.is_empty() => {
                format!("nobody is called '{wanted}': nobody else is there yet")
            }
            Unclear::Nobody(there) => {
                format!(
                    "nobody is called '{wanted}'; there are: {}",
                    list(there, claim)
                )
            }
            Unclear::Several(them) => format!(
                "'{wanted}' may mean several agents; name one by its id or the end of it: {}",
                list(them, claim)
            ),
            Unclear::LooksLike(other) => format!(
                "'{wanted}' only looks like the name of {}: some of its letters are others; if \
                 that one is meant, use its id",
                shown(other, claim)
            ),
        }
    }
}

/// Those agents, as an error lists them.
fn list(agents: &[Candidate], claim: fn(&str) -> String) -> String {
    let shown: Vec<String> = agents
        .iter()
        .take(MAX_LISTED)
        .map(|agent| shown(agent, claim))
        .collect();
    match agents.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// `name (role) …KEY6`
fn shown(agent: &Candidate, claim: fn(&str) -> String) -> String {
    let role = agent.role.as_deref();
    let role = role.map(|role| format!(" ({})", claim(role)));
    format!(
        "{}{} …{}",
        claim(&agent.name),
        role.unwrap_or_default(),
        crate::safe::token(short_id(&agent.id))
    )
}

/// A name as names are compared: cleaned, case folded.
fn folded(name: &str) -> String {
    clean::name(name).to_lowercase()
}

/// What can be said of a name before anybody is looked at.
fn written(wanted: &str) -> Result<&str, Unclear> {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return Err(Unclear::Empty);
    }
    if !wanted.chars().all(clean::allowed_in_name) {
        return Err(Unclear::Invisible);
    }
    Ok(wanted)
}

/// A full id, if that is what is given.
fn full_id(wanted: &str) -> Option<Result<String, Unclear>> {
    AgentId::parse(wanted)?;
    Some(match parse_id(wanted) {
        Some(id) => Ok(id.into()),
        None => Err(Unclear::Mistyped),
    })
}

/// The end of an id, written as we show it or bare.
fn short_key(wanted: &str) -> Option<&str> {
    let key = wanted.trim_start_matches(['…', '.', '·']);
    let plain = |b: u8| matches!(b, b'A'..=b'Z' | b'2'..=b'7');
    (key.len() >= SHORT_KEY && key.bytes().all(plain)).then_some(key)
}

/// The one of them who is meant.
///
/// # Errors
/// Nobody in particular is: see [`Unclear`].
pub fn pick(wanted: &str, known: &[Candidate], me: &str) -> Result<Candidate, Unclear> {
    let wanted = written(wanted)?;
    if let Some(id) = full_id(wanted) {
        let id = id?;
        let there = known.iter().find(|agent| agent.id == id).cloned();
        return Ok(there.unwrap_or(Candidate {
            id,
            name: String::new(),
            role: None,
        }));
    }
    let name = folded(wanted);
    let key = short_key(wanted);
    let meant = |agent: &&Candidate| {
        folded(&agent.name) == name || key.is_some_and(|key| agent.id.ends_with(key))
    };
    let mut others: Vec<&Candidate> = known.iter().filter(|agent| agent.id != me).collect();
    others.sort_by(|a, b| a.id.cmp(&b.id));
    others.dedup_by(|a, b| a.id == b.id);
    let found: Vec<&Candidate> = others.iter().copied().filter(meant).collect();
    let alike = known
        .iter()
        .find(|agent| !wanted.is_ascii() && looks_like(wanted, &clean::name(&agent.name)));
    let copies = |agents: &[&Candidate]| agents.iter().map(|&agent| agent.clone()).collect();
    match (found.as_slice(), alike) {
        (_, Some(alike)) => Err(Unclear::LooksLike(alike.clone())),
        ([one], None) => Ok((*one).clone()),
        ([], None) if !clean::usable_name(&clean::name(wanted)) => Err(Unclear::Reserved),
        ([], None) if known.iter().filter(|a| a.id == me).any(|a| meant(&a)) => {
            Err(Unclear::Myself)
        }
        ([], None) => Err(Unclear::Nobody(copies(&others))),
        (several, None) => Err(Unclear::Several(copies(several))),
    }
}

/// Who may take a handoff, and what stands in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Audience {
    /// The addressee as it goes out; `None`: anyone.
    pub to: Option<String>,
    /// The members but the sender who may take it.
    pub members: Vec<RosterEntry>,
}

/// Works out who of a room may take a handoff `for` a name, a role or an id. A role may be that of
/// several; a name may not.
///
/// # Errors
/// Somebody is named and nobody else in the room is meant, or several by one name.
pub fn audience(
    addressee: Option<&str>,
    members: &[RosterEntry],
    me: &str,
) -> Result<Audience, Unclear> {
    let others = members.iter().filter(|member| member.id != me);
    let Some(wanted) = addressee else {
        return Ok(Audience {
            to: None,
            members: others.cloned().collect(),
        });
    };
    let wanted = written(wanted)?;
    let role = folded(wanted);
    let has_role =
        |member: &&RosterEntry| member.role.as_deref().is_some_and(|r| folded(r) == role);
    let mut able: Vec<RosterEntry> = others.clone().filter(has_role).cloned().collect();
    let known: Vec<Candidate> = members.iter().map(Candidate::from).collect();
    let one = match pick(wanted, &known, me) {
        Ok(one) => Some(one),
        // Whoever has the role is meant, whatever the others are called.
        Err(Unclear::Nobody(_) | Unclear::Myself | Unclear::Reserved) if !able.is_empty() => None,
        Err(unclear) => return Err(unclear),
    };
    let Some(one) = one else {
        let to = spelled(wanted, able.iter().filter_map(|m| m.role.as_deref()));
        return Ok(Audience { to, members: able });
    };
    let Some(member) = members.iter().find(|m| m.id == one.id && m.id != me) else {
        // A full id of somebody who is not there, or one's own.
        return Err(match one.id == me {
            true => Unclear::Myself,
            false => Unclear::Nobody(others.map(Candidate::from).collect()),
        });
    };
    if folded(&member.name) != role {
        return Ok(Audience {
            to: Some(one.id),
            members: vec![member.clone()],
        });
    }
    let to = spelled(wanted, [member.name.as_str()].into_iter());
    if !able.iter().any(|m| m.id == member.id) {
        able.push(member.clone());
    }
    Ok(Audience { to, members: able })
}

/// The addressee as it was written where all readers will know it again, else as it is claimed.
fn spelled<'a>(wanted: &str, mut claims: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = claims.next()?;
    let known_again = addressed(wanted, first, None) && claims.all(|c| addressed(wanted, c, None));
    Some(if known_again { wanted } else { first }.to_owned())
}

/// Where somebody is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Among the members of a room.
    Room(&'a str),
    /// In all of one's rooms, then in the directory.
    Everywhere,
}

impl Client {
    /// Finds the agent that is meant by a full id, the end of one, or a name. A full id is taken
    /// as it is, without asking anybody.
    ///
    /// # Errors
    /// As every call. The inner result says whether somebody in particular is meant.
    pub async fn find_agent(
        &self,
        wanted: &str,
        scope: Scope<'_>,
    ) -> Result<Result<Candidate, Unclear>, ClientError> {
        let me = self.id().as_str();
        // What is unclear without anybody, and ids, cost no request.
        match written(wanted) {
            Err(unclear) => return Ok(Err(unclear)),
            Ok(wanted) if full_id(wanted).is_some() => return Ok(pick(wanted, &[], me)),
            Ok(_) => {}
        }
        let room = match scope {
            Scope::Room(room) => {
                let members = self.roster(room).await?;
                let known: Vec<Candidate> = members.iter().map(Candidate::from).collect();
                return Ok(pick(wanted, &known, me));
            }
            Scope::Everywhere => pick(wanted, &self.room_mates().await?, me),
        };
        let Err(Unclear::Nobody(there)) = room else {
            return Ok(room);
        };
        let mut known = self.cards_about(wanted).await?;
        // A card may be called as somebody in one's rooms only looks.
        known.extend(there.iter().cloned());
        Ok(match pick(wanted, &known, me) {
            // Those of one's rooms, not all that the directory found by a similar text.
            Err(Unclear::Nobody(_)) => Err(Unclear::Nobody(there)),
            done => done,
        })
    }

    /// Everybody in this agent's rooms.
    async fn room_mates(&self) -> Result<Vec<Candidate>, ClientError> {
        let mut known: Vec<Candidate> = Vec::new();
        for room in self.rooms().await?.iter().take(MAX_ROOMS_SEARCHED) {
            let members = self.roster(&room.name).await?;
            known.extend(members.iter().map(Candidate::from));
        }
        Ok(known)
    }

    /// Those in the directory whose card says something like that. A card that is not signed by
    /// its own id names nobody.
    async fn cards_about(&self, wanted: &str) -> Result<Vec<Candidate>, ClientError> {
        let search = Discover {
            scope: DiscoverScope::Hub,
            query: Some(wanted.trim().to_owned()),
            tag: None,
            skill: None,
            status: None,
            limit: Some(MAX_CARDS),
        };
        let found = match self.discover(search).await {
            Ok(found) => found,
            // A hub without a directory.
            Err(error)
                if matches!(
                    error.code(),
                    Some(ErrorCode::Unsupported | ErrorCode::BadFrame)
                ) =>
            {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        Ok(found
            .into_iter()
            .filter(|entry| check(entry) != CardState::Invalid)
            .map(|entry| Candidate {
                id: entry.card.id,
                name: entry.card.name,
                role: entry.card.role,
            })
            .collect())
    }
}

#[cfg(test)]
#[path = "addressee_tests.rs"]
mod tests;
