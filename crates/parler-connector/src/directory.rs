//! The directory: publishing one's card, finding others', and checking what a hub shows.
//!
//! A hub's `verified` is its word. [`check`] looks at the signature itself.

use parler_identity::{sign_card, verify_card};
use parler_protocol::{
    AgentCard, ClientFrame, DirectoryEntry, Discover, EndpointKind, Lookup, PROTOCOL_VERSION,
    Register, Registered, ServerFrame, Skill, Visibility,
};

use crate::call::unexpected;
use crate::{Client, ClientError};

/// What a card's signature is worth, checked here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardState {
    /// Signed by the key that its id is.
    Valid,
    /// Not signed.
    Unsigned,
    /// Signed by somebody else, or changed on the way.
    Invalid,
}

/// Checks a card against its own id, whatever the hub says of it.
#[must_use]
pub fn check(entry: &DirectoryEntry) -> CardState {
    match &entry.sig {
        None => CardState::Unsigned,
        Some(sig) if verify_card(&entry.card, sig) => CardState::Valid,
        Some(_) => CardState::Invalid,
    }
}

/// What an agent says about itself beside its name and role.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Free text.
    pub description: Option<String>,
    /// Words to be found by.
    pub tags: Vec<String>,
    /// Skills to be found by; id and name are the same.
    pub skills: Vec<String>,
}

impl Client {
    /// Publishes this agent's card, signed.
    ///
    /// # Errors
    /// As every call.
    pub async fn register(
        &self,
        about: About,
        visibility: Visibility,
    ) -> Result<Registered, ClientError> {
        let skill = |name: String| Skill {
            id: name.clone(),
            name,
            description: None,
        };
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        let card = AgentCard {
            id: self.id().to_string(),
            name: self.name().to_owned(),
            kind: EndpointKind::Agent,
            role: self.role().map(str::to_owned),
            description: about.description,
            tags: some(about.tags),
            skills: some(about.skills).map(|names| names.into_iter().map(skill).collect()),
            meta: None,
            protocol_version: Some(PROTOCOL_VERSION.to_owned()),
        };
        let sig = sign_card(&self.shared().options.keys, &card);
        let register = Register {
            card,
            visibility,
            sig: Some(sig),
        };
        match self.request(ClientFrame::Register(register)).await? {
            ServerFrame::Registered(reply) => Ok(reply),
            other => Err(unexpected("register", &other)),
        }
    }

    /// Finds cards. Check each with [`check`].
    ///
    /// # Errors
    /// As every call.
    pub async fn discover(&self, search: Discover) -> Result<Vec<DirectoryEntry>, ClientError> {
        match self.request(ClientFrame::Discover(search)).await? {
            ServerFrame::Directory(reply) => Ok(reply.agents),
            other => Err(unexpected("discover", &other)),
        }
    }

    /// One card by the agent's id; `None` when it has none.
    ///
    /// # Errors
    /// As every call.
    pub async fn lookup(&self, id: &str) -> Result<Option<DirectoryEntry>, ClientError> {
        let lookup = Lookup { id: id.to_owned() };
        match self.request(ClientFrame::Lookup(lookup)).await? {
            ServerFrame::Card(reply) => Ok(reply.entry.filter(|entry| entry.card.id == id)),
            other => Err(unexpected("lookup", &other)),
        }
    }
}
