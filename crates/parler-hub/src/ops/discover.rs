//! `register`, `discover`, `lookup`: the directory.

use parler_identity::verify_card;
use parler_protocol::{
    AgentCard, AgentId, Card, Directory, DirectoryEntry, Discover, ErrorCode, Lookup, Register,
    Registered, ServerFrame, limits,
};
use parler_store::{CardFilter, CardRow, NewCard, StoreError};

use serde_json::Value;

use super::{Caller, cap, cap_field, cap_optional};
use crate::defaults::MAX_PARTS_DEPTH;
use crate::error::OpError;
use crate::now_ms;
use crate::presence::{derived_status, is_fresh};
use crate::state::HubState;

/// Cards of one reply when no limit is given, and at most.
const LIMITS: (u32, u32) = (200, 1000);

/// Publishes a card: one's own, and with a signature only a good one.
pub async fn register(caller: Caller, op: Register) -> Result<ServerFrame, OpError> {
    let frame = serde_json::to_string(&op).unwrap_or_default();
    cap("card", &frame, limits::MAX_MESSAGE_BYTES)?;
    let me = &caller.agent.id;
    if *me != op.card.id.as_str() {
        return Err(OpError::new(
            ErrorCode::InvalidCard,
            "the card is somebody else's: its id must be your own",
        ));
    }
    if op
        .card
        .meta
        .iter()
        .flat_map(|m| m.values())
        .any(|v| deeper(v, MAX_PARTS_DEPTH))
    {
        return Err(OpError::new(
            ErrorCode::InvalidCard,
            format!("the card's meta is nested deeper than {MAX_PARTS_DEPTH}"),
        ));
    }
    let verified = match &op.sig {
        Some(sig) if verify_card(&op.card, sig) => true,
        Some(_) => {
            return Err(OpError::new(
                ErrorCode::InvalidCard,
                "the card's signature does not verify",
            ));
        }
        None => false,
    };
    let visibility = op.visibility;
    caller.state.store().register(new_card(me, op)).await?;
    Ok(ServerFrame::Registered(Registered {
        id: me.to_string(),
        visibility,
        verified,
    }))
}

fn new_card(me: &AgentId, op: Register) -> NewCard {
    let card = &op.card;
    let skills = card.skills.as_deref().unwrap_or_default();
    NewCard {
        agent: me.clone(),
        words: card.name.to_lowercase(),
        tags: blob(card.tags.iter().flatten().map(String::as_str)),
        skills: blob(skills.iter().flat_map(|s| [s.id.as_str(), s.name.as_str()])),
        card: serde_json::to_string(card).unwrap_or_default(),
        visibility: op.visibility,
        sig: op.sig,
        now: now_ms(),
    }
}

/// Whether a value is nested deeper than so many levels: what a reader cannot decode would make
/// the directory unreadable.
fn deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|v| deeper(v, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|v| deeper(v, levels - 1)),
        _ => false,
    }
}

/// Each text after a blank, lower-cased, and a last blank.
fn blob<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut out: String = texts
        .map(|text| format!(" {}", text.to_lowercase()))
        .collect();
    out.push(' ');
    out
}

/// Finds cards; all conditions hold together.
pub async fn discover(caller: Caller, op: Discover) -> Result<ServerFrame, OpError> {
    if let Some(query) = &op.query {
        cap("query", query, limits::MAX_QUERY_BYTES)?;
    }
    for (field, value) in [
        ("tag", &op.tag),
        ("skill", &op.skill),
        ("status", &op.status),
    ] {
        cap_optional(field, value.as_deref())?;
    }
    let agents = find(&caller.state, op).await?;
    Ok(ServerFrame::Directory(Directory { agents }))
}

/// The entries that match, for who may see that scope.
pub async fn find(state: &HubState, op: Discover) -> Result<Vec<DirectoryEntry>, StoreError> {
    let lower = |text: Option<String>| text.map(|t| t.to_lowercase());
    let filter = CardFilter {
        public_only: op.scope == parler_protocol::DiscoverScope::Public,
        query: lower(op.query),
        tag: lower(op.tag),
        skill: lower(op.skill),
    };
    let status = lower(op.status);
    let limit = op.limit.unwrap_or(LIMITS.0).clamp(1, LIMITS.1);
    let rows = state.store().discover(filter).await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| entry(state, row))
        .filter(|entry| {
            status
                .as_ref()
                .is_none_or(|s| entry.status.to_lowercase() == *s)
        })
        .take(limit as usize)
        .collect())
}

/// One card, private ones included; an unknown id is an answer without an entry.
pub async fn lookup(caller: Caller, op: Lookup) -> Result<ServerFrame, OpError> {
    cap_field("id", &op.id)?;
    let row = match AgentId::parse(&op.id) {
        Some(id) => caller.state.store().lookup(&id).await?,
        None => None,
    };
    let entry = row.and_then(|row| entry(&caller.state, row));
    Ok(ServerFrame::Card(Card { entry }))
}

/// A card as the wire has it; `None` when what is stored cannot be read any more.
pub fn entry(state: &HubState, row: CardRow) -> Option<DirectoryEntry> {
    let card: AgentCard = match serde_json::from_str(&row.card) {
        Ok(card) => card,
        Err(error) => {
            tracing::error!(%error, agent = row.agent.as_str(), "a stored card cannot be read");
            return None;
        }
    };
    let now = now_ms();
    let presence = state.heard().lay_over(&row.agent, row.presence);
    Some(DirectoryEntry {
        card,
        visibility: row.visibility,
        status: derived_status(presence.as_ref(), now).to_owned(),
        attention: presence
            .as_ref()
            .filter(|p| is_fresh(p, now))
            .and_then(|p| p.attention),
        activity: presence.and_then(|p| p.activity),
        hub: state.config().name.clone(),
        verified: row.sig.is_some(),
        sig: row.sig,
        first_seen: row.first_seen,
        last_seen: row.last_seen,
    })
}
