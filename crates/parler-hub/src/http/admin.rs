//! `POST /api/room/admin/ACT`: what a room's owner decides, from the hub's own page.
//!
//! The token stands in a header, which no form of another site can set; a request that a browser
//! sends from another site is refused all the same, and no answer is readable there.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use parler_protocol::{ErrorCode, RemoveMember, ResolveJoin, RoomName, ServerFrame, links};
use parler_store::{WhichInvites, WhichTokens};
use serde::Deserialize;
use serde_json::json;

use super::auth::{self, Good};
use super::client::{ClientIp, base_url};
use super::error::HttpError;
use super::session::private_json;
use crate::error::OpError;
use crate::ops::members;
use crate::state::HubState;
use crate::{defaults, now_ms};

/// What the page sends.
#[derive(Deserialize)]
struct Wish {
    /// Whom it is about.
    agent: Option<String>,
    /// It may not come back.
    ban: Option<bool>,
    /// Id of the invite to revoke.
    invite: Option<String>,
    /// Id of the token to revoke.
    token: Option<String>,
    /// Revoke `invites` or `tokens`, all of the room.
    all: Option<All>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum All {
    Invites,
    Tokens,
}

/// Does one act.
pub async fn act(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    Path(act): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpError> {
    if !["requests", "approve", "deny", "remove", "revoke"].contains(&act.as_str()) {
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    own_page(&state, &headers)?;
    let good = auth::admin(&state, ip, &headers).await?;
    let wish = wish(&headers, body).await?;
    let room = good.row.room.clone().ok_or_else(auth::ended)?;
    match act.as_str() {
        "requests" => requests(&state, &good, &room).await,
        "approve" => resolve(&state, &good, &room, wish, true).await,
        "deny" => resolve(&state, &good, &room, wish, false).await,
        "remove" => remove(&state, &good, &room, wish).await,
        _ => revoke(&state, &good, &room, wish).await,
    }
}

/// Refuses what a browser sends from a page of somebody else. A client that is no browser names
/// no origin.
fn own_page(state: &HubState, headers: &HeaderMap) -> Result<(), HttpError> {
    let foreign = || HttpError::Forbidden("only the hub's own page may do this");
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(foreign());
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else {
        return Ok(());
    };
    let web = origin.starts_with("http://") || origin.starts_with("https://");
    let base = base_url(state, headers);
    let own = [state.url(), base.as_str()]
        .iter()
        .any(|url| links::same_hub(origin, url));
    if web && own { Ok(()) } else { Err(foreign()) }
}

/// The request's body, which must be small, JSON, and there soon.
async fn wish(headers: &HeaderMap, body: Body) -> Result<Wish, HttpError> {
    let bad = |text: &str| HttpError::Bad(text.to_owned());
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(bad("the body must be JSON, and say so in its content-type"));
    }
    let read = to_bytes(body, defaults::MAX_ADMIN_BODY_BYTES);
    let read = tokio::time::timeout(defaults::HEAD_TIMEOUT, read).await;
    let bytes = read
        .map_err(|_| bad("the body did not come"))?
        .map_err(|_| bad("the body is too large or broken"))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| HttpError::Bad(format!("not understood: {error}")))
}

fn named(agent: Option<String>) -> Result<String, HttpError> {
    agent.ok_or_else(|| HttpError::Bad("name the `agent` by its id".to_owned()))
}

async fn requests(state: &HubState, good: &Good, room: &RoomName) -> Result<Response, HttpError> {
    let rows = state
        .store()
        .join_requests(room, &good.row.minted_by)
        .await?
        .ok_or_else(auth::ended)?;
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| {
            json!({ "agent": row.agent.as_str(), "name": row.name, "role": row.role,
                    "requestedAt": row.requested_at })
        })
        .collect();
    Ok(private_json(json!({ "requests": rows }).to_string()))
}

async fn resolve(
    state: &HubState,
    good: &Good,
    room: &RoomName,
    wish: Wish,
    approve: bool,
) -> Result<Response, HttpError> {
    let op = ResolveJoin {
        room: room.to_string(),
        agent: named(wish.agent)?,
        approve,
    };
    answer(members::resolve_join_as(state, &good.row.minted_by, op).await)
}

async fn remove(
    state: &HubState,
    good: &Good,
    room: &RoomName,
    wish: Wish,
) -> Result<Response, HttpError> {
    let op = RemoveMember {
        room: room.to_string(),
        agent: named(wish.agent)?,
        ban: wish.ban,
    };
    answer(members::remove_member_as(state, &good.row.minted_by, op).await)
}

async fn revoke(
    state: &HubState,
    good: &Good,
    room: &RoomName,
    wish: Wish,
) -> Result<Response, HttpError> {
    let (store, owner) = (state.store(), &good.row.minted_by);
    let count = match (wish.invite, wish.token, wish.all) {
        (Some(id), None, None) => store.revoke_invites(owner, WhichInvites::Id(id)).await?,
        (None, Some(id), None) => {
            let which = WhichTokens::Id(id);
            store.revoke_tokens(owner, which, now_ms()).await?
        }
        (None, None, Some(All::Invites)) => {
            let which = WhichInvites::Room(room.clone());
            store.revoke_invites(owner, which).await?
        }
        (None, None, Some(All::Tokens)) => {
            let which = WhichTokens::Room(room.clone());
            store.revoke_tokens(owner, which, now_ms()).await?
        }
        _ => {
            let text = "name one of `invite`, `token`, `all`";
            return Err(HttpError::Bad(text.to_owned()));
        }
    };
    Ok(private_json(json!({ "count": count }).to_string()))
}

fn answer(done: Result<ServerFrame, OpError>) -> Result<Response, HttpError> {
    match done {
        Ok(frame) => match serde_json::to_string(&frame) {
            Ok(json) => Ok(private_json(json)),
            Err(_) => Err(HttpError::Internal),
        },
        Err(error) => Err(match error.code() {
            Some(ErrorCode::NotOwner) => auth::ended(),
            Some(ErrorCode::Internal) => HttpError::Internal,
            _ => HttpError::Conflict(error.message().to_owned()),
        }),
    }
}
