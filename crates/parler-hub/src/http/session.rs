//! `GET /api/session`: a room for who watches it with a token. Absent values are `null` here, as
//! existing viewers expect.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use parler_protocol::limits::MAX_PULL_LIMIT;
use parler_protocol::{RoomKind, Seq, StoredMessage};
use parler_store::{LogEntry, WatchedMember};
use serde::{Deserialize, Serialize};

use super::auth;
use super::client::ClientIp;
use super::error::HttpError;
use super::project::Shown;
use crate::now_ms;
use crate::presence::derived_status;
use crate::state::HubState;
use crate::tally::RoomStats;

/// From where, and as who.
#[derive(Deserialize)]
pub struct Asked {
    #[serde(default)]
    since: i64,
    token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    room: String,
    kind: RoomKind,
    member_count: usize,
    online_count: usize,
    agents: Vec<Seen>,
    messages: Vec<Shown>,
    cursor: i64,
    stats: RoomStats,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    name: String,
    role: Option<String>,
    status: String,
    activity: Option<String>,
    last_seen: i64,
}

/// What a token's answer must not leave behind: copies, and the token in a referrer.
pub const PRIVATE: [(HeaderName, &str); 2] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// A private JSON answer, out of text that is JSON already.
pub fn private_json(json: String) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (PRIVATE, kind, Body::from(json)).into_response()
}

/// The room, and its messages after `since`.
pub async fn session(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, HttpError> {
    let good = auth::watch(&state, ip, &headers, asked.token.as_deref()).await?;
    let (store, now) = (state.store(), now_ms());
    let room = store.watched_room(good.hash, now).await?;
    let room = room.ok_or_else(auth::ended)?;
    let page = store
        .watched_log(good.hash, now, Seq(asked.since), MAX_PULL_LIMIT)
        .await?;
    let page = page.ok_or_else(auth::ended)?;
    let stats = state.tallies().room(store, good.hash, &room, now).await?;
    let stats = stats.ok_or_else(auth::ended)?;
    let agents: Vec<Seen> = room
        .members
        .into_iter()
        .map(|member| seen(&state, member, now))
        .collect();
    let session = move |messages: Vec<Shown>, cursor| Session {
        room: room.name.into(),
        kind: room.kind,
        member_count: agents.len(),
        online_count: agents.iter().filter(|a| a.status != "offline").count(),
        agents,
        messages,
        cursor,
        stats,
    };
    let json = tokio::task::spawn_blocking(move || {
        let cursor = page.last().map_or(asked.since, |entry| entry.seq.0);
        let messages = page.iter().filter_map(shown).collect();
        serde_json::to_string(&session(messages, cursor))
    })
    .await;
    match json {
        Ok(Ok(json)) => Ok(private_json(json)),
        _ => Err(HttpError::Internal),
    }
}

fn shown(entry: &LogEntry) -> Option<Shown> {
    match serde_json::from_str::<StoredMessage>(&entry.json) {
        Ok(message) => Some(Shown::of(message)),
        Err(error) => {
            tracing::error!(%error, seq = entry.seq.0, "a stored message cannot be read");
            None
        }
    }
}

fn seen(state: &HubState, watched: WatchedMember, now: i64) -> Seen {
    let row = watched.member;
    let presence = state.heard().lay_over(&row.agent, row.presence);
    Seen {
        name: row.name,
        role: row.role,
        status: derived_status(presence.as_ref(), now).to_owned(),
        last_seen: presence.as_ref().map_or(row.last_hello, |p| p.at),
        activity: presence.and_then(|p| p.activity),
    }
}
