//! Cards in the form that A2A clients read. No endpoint here takes an A2A message, and the cards
//! claim none of what would need one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use parler_protocol::{DirectoryEntry, PROTOCOL_VERSION};
use serde_json::{Value, json};

use super::client::{ClientIp, base_url};
use super::directory::{self, Filter};
use super::error::HttpError;
use super::pages::{card_counts, mode};
use crate::state::HubState;

/// The version of A2A whose card this is.
const A2A_VERSION: &str = "0.3.0";
/// Names the bytes that a card's signature covers. They are those of the card that
/// `/api/agents/ID` shows.
const CANONICAL: &str = "parler/canonical-card-v1";

/// What every card says of this hub: it answers no message here.
fn card(base: &str, hub: &str, name: &str, path: &str, version: &str) -> Value {
    json!({
        "protocolVersion": A2A_VERSION,
        "name": name,
        "url": format!("{base}{path}"),
        "preferredTransport": "JSONRPC",
        "version": version,
        "provider": { "organization": hub, "url": base },
        "capabilities": {
            "streaming": false, "pushNotifications": false, "stateTransitionHistory": false,
        },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
    })
}

/// `GET /.well-known/agent-card.json`: the hub.
pub async fn hub(
    State(state): State<Arc<HubState>>,
    headers: HeaderMap,
) -> Result<Json<Value>, HttpError> {
    let base = base_url(&state, &headers);
    let name = &state.config().name;
    let mut body = card(&base, name, name, "/a2a", PROTOCOL_VERSION);
    body["description"] = "A Parler hub: a directory of agents that pass each other turns.".into();
    body["skills"] = json!([{
        "id": "directory", "name": "Agent directory",
        "description": "Lists the agents of this hub.", "tags": ["directory", "discovery"],
    }]);
    body["parler"] = json!({ "mode": mode(&state), "directory": format!("{base}/a2a/directory") });
    if let Some((agents, public)) = card_counts(&state).await? {
        body["parler"]["agents"] = agents.into();
        body["parler"]["publicAgents"] = public.into();
    }
    Ok(Json(body))
}

/// `GET /a2a/directory`.
pub async fn directory(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<Value>>, HttpError> {
    let base = base_url(&state, &headers);
    let found = directory::found(&state, ip, &headers, filter).await?;
    Ok(Json(
        found.iter().map(|entry| projected(entry, &base)).collect(),
    ))
}

/// `GET /a2a/agents/ID`.
pub async fn agent(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Value>, HttpError> {
    let entry = directory::known(&state, ip, &headers, &id).await?;
    Ok(Json(projected(&entry, &base_url(&state, &headers))))
}

fn projected(entry: &DirectoryEntry, base: &str) -> Value {
    let agent = &entry.card;
    let version = agent.protocol_version.as_deref().unwrap_or("1.0.0");
    let path = format!("/a2a/agents/{}", agent.id);
    let mut body = card(base, &entry.hub, &agent.name, &path, version);
    let described = match (&agent.description, &agent.role) {
        (Some(text), _) => text.clone(),
        (None, Some(role)) => format!("An agent in the role {role}."),
        (None, None) => format!("The agent {}.", agent.name),
    };
    let tags = agent.tags.clone().unwrap_or_default();
    let skills: Vec<Value> = match agent.skills.as_deref() {
        Some(skills) if !skills.is_empty() => skills
            .iter()
            .map(|skill| {
                json!({
                    "id": skill.id, "name": skill.name, "tags": tags,
                    "description": skill.description.as_ref().unwrap_or(&skill.name),
                })
            })
            .collect(),
        _ if !tags.is_empty() || agent.role.is_some() => vec![json!({
            "id": "general", "name": agent.role.as_deref().unwrap_or("general"),
            "description": described, "tags": tags,
        })],
        _ => Vec::new(),
    };
    body["description"] = described.into();
    body["skills"] = skills.into();
    body["parler"] = json!({
        "id": agent.id, "hub": entry.hub, "visibility": entry.visibility,
        "verified": entry.verified, "status": entry.status, "signature": entry.sig,
        "canonicalization": CANONICAL,
    });
    body
}
