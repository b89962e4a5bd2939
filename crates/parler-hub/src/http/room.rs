//! `GET /api/room/…`: a room as its members see it, for who watches it with a full token.

use std::hash::Hash;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use parler_protocol::limits::{DEFAULT_PULL_LIMIT, MAX_PULL_LIMIT};
use parler_protocol::{DirectoryEntry, RosterEntry, Seq};
use parler_store::WatchedRoom;
use serde::{Deserialize, Serialize};

use super::auth;
use super::client::ClientIp;
use super::error::HttpError;
use super::session::private_json;
use crate::now_ms;
use crate::ops::{discover, rooms};
use crate::state::HubState;

/// Which messages.
#[derive(Deserialize)]
pub struct Range {
    #[serde(default)]
    after: i64,
    limit: Option<u32>,
}

/// A member, and how far behind it is.
#[derive(Serialize)]
pub struct Member {
    #[serde(flatten)]
    entry: RosterEntry,
    unread: u32,
}

impl Member {
    /// What others may notice a change of.
    pub fn state(&self) -> impl Hash + '_ {
        let e = &self.entry;
        let attention = e.attention.map(|a| a.as_str());
        (&e.id, &e.name, &e.role, &e.status, &e.activity, attention)
    }
}

/// Messages after a place, in the bytes that members get.
pub async fn messages(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Query(range): Query<Range>,
) -> Result<Response, HttpError> {
    let good = auth::full(&state, ip, &headers).await?;
    let limit = range
        .limit
        .unwrap_or(DEFAULT_PULL_LIMIT)
        .min(MAX_PULL_LIMIT);
    let page = state
        .store()
        .watched_log(good.hash, now_ms(), Seq(range.after), limit)
        .await?;
    let page = page.ok_or_else(auth::ended)?;
    let room = good.row.room.ok_or_else(auth::ended)?;
    let cursor = page.last().map_or(range.after, |entry| entry.seq.0);
    let bytes: usize = page.iter().map(|entry| entry.json.len() + 1).sum();
    let mut json = String::with_capacity(bytes + 128);
    json.push_str(r#"{"room":"#);
    json.push_str(&serde_json::Value::from(room.as_str()).to_string());
    json.push_str(r#","messages":["#);
    for (i, entry) in page.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        json.push_str(&entry.json);
    }
    json.push_str(r#"],"cursor":"#);
    json.push_str(&cursor.to_string());
    json.push('}');
    Ok(private_json(json))
}

/// Members with their presence.
pub async fn roster(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let good = auth::full(&state, ip, &headers).await?;
    let now = now_ms();
    let room = state.store().watched_room(good.hash, now).await?;
    let room = room.ok_or_else(auth::ended)?;
    answer(&serde_json::json!({
        "room": room.name.as_str(), "kind": room.kind, "head": room.head,
        "members": members(&state, room, now),
    }))
}

/// The members of a room, by name.
pub fn members(state: &HubState, room: WatchedRoom, now: i64) -> Vec<Member> {
    room.members
        .into_iter()
        .map(|watched| Member {
            entry: rooms::entry(state, watched.member, now),
            unread: watched.unread,
        })
        .collect()
}

/// The members' cards, with their signatures, to be checked by who reads them.
pub async fn cards(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let good = auth::full(&state, ip, &headers).await?;
    let rows = state.store().watched_cards(good.hash, now_ms()).await?;
    let cards: Vec<DirectoryEntry> = rows
        .ok_or_else(auth::ended)?
        .into_iter()
        .filter_map(|row| discover::entry(&state, row))
        .collect();
    answer(&serde_json::json!({ "cards": cards }))
}

fn answer(body: &serde_json::Value) -> Result<Response, HttpError> {
    Ok(private_json(body.to_string()))
}
