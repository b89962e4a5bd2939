//! `GET /api/directory`, `GET /api/agents/ID`: cards. Private ones for who has a directory token.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use parler_protocol::{AgentId, DirectoryEntry, Discover, DiscoverScope, Visibility, limits};
use serde::Deserialize;

use super::auth;
use super::client::ClientIp;
use super::error::HttpError;
use crate::ops::discover;
use crate::state::HubState;

/// What to look for.
#[derive(Deserialize)]
pub struct Filter {
    q: Option<String>,
    tag: Option<String>,
    skill: Option<String>,
    status: Option<String>,
    scope: Option<String>,
    limit: Option<u32>,
}

/// Cards that match.
pub async fn list(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<DirectoryEntry>>, HttpError> {
    found(&state, ip, &headers, filter).await.map(Json)
}

/// The same for other forms of the list.
pub async fn found(
    state: &HubState,
    ip: ClientIp,
    headers: &HeaderMap,
    filter: Filter,
) -> Result<Vec<DirectoryEntry>, HttpError> {
    let scope = match filter.scope.as_deref() {
        Some("hub") => DiscoverScope::Hub,
        _ => DiscoverScope::Public,
    };
    if scope == DiscoverScope::Hub && !auth::directory(state, ip, headers).await? {
        return Err(HttpError::Unauthorized(
            "a directory token is required to view the hub-scope directory",
        ));
    }
    for (name, value, most) in [
        ("q", &filter.q, limits::MAX_QUERY_BYTES),
        ("tag", &filter.tag, limits::MAX_FIELD_BYTES),
        ("skill", &filter.skill, limits::MAX_FIELD_BYTES),
        ("status", &filter.status, limits::MAX_FIELD_BYTES),
    ] {
        if value.as_ref().is_some_and(|value| value.len() > most) {
            return Err(HttpError::Bad(format!(
                "`{name}` is larger than {most} bytes"
            )));
        }
    }
    let wanted = Discover {
        scope,
        query: filter.q,
        tag: filter.tag,
        skill: filter.skill,
        status: filter.status,
        limit: filter.limit,
    };
    Ok(discover::find(state, wanted).await?)
}

/// One card.
pub async fn one(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<DirectoryEntry>, HttpError> {
    known(&state, ip, &headers, &id).await.map(Json)
}

/// One card; a private one and one that does not exist look the same to who has no token.
pub async fn known(
    state: &HubState,
    ip: ClientIp,
    headers: &HeaderMap,
    id: &str,
) -> Result<DirectoryEntry, HttpError> {
    let trusted = auth::directory(state, ip, headers).await?;
    let row = match AgentId::parse(id) {
        Some(id) => state.store().lookup(&id).await?,
        None => None,
    };
    row.filter(|row| trusted || row.visibility == Visibility::Public)
        .and_then(|row| discover::entry(state, row))
        .ok_or(HttpError::NotFound("no such public agent"))
}
