//! Small read-only answers: health, capabilities, invite page, landing page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use parler_protocol::parts::ADVERTISED_KINDS;
use parler_protocol::{PROTOCOL_VERSION, links};
use parler_store_sqlite::Durability;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::ClientIp;
use super::error::HttpError;
use super::html::escape;
use crate::state::HubState;
use crate::{defaults, now_ms};

/// A longer code is no code and is not reflected.
const MAX_SHOWN_CODE: usize = 64;

/// How deep to look.
#[derive(Deserialize)]
pub struct Depth {
    deep: Option<String>,
}

/// `GET /health`: `ok` when the process answers; with `?deep=1` when the store does too, which
/// costs it a little and so spends the address's budget.
pub async fn health(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    Query(depth): Query<Depth>,
) -> Response {
    if !matches!(depth.deep.as_deref(), Some("1" | "true")) {
        return "ok".into_response();
    }
    if state.budgets().http.spend(&ip.key(), now_ms()).is_err() {
        return HttpError::TooMany("requests").into_response();
    }
    let ping = tokio::time::timeout(defaults::HEALTH_TIMEOUT, state.store().ping()).await;
    match ping {
        Ok(Ok(())) => "ok".into_response(),
        failed => {
            tracing::error!(?failed, "a deep health check failed");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the store does not answer\n",
            )
                .into_response()
        }
    }
}

fn capability_object(state: &HubState) -> Value {
    let config = state.config();
    json!({
        "push": true,
        "longPoll": true,
        "blobs": true,
        "maxBlobBytes": config.limits.max_blob_bytes,
        "maxMessageBytes": config.limits.max_message_bytes,
        "joinPolicy": if config.join_secret.is_some() { "secret" } else { "open" },
        "messageKinds": ADVERTISED_KINDS,
        "durability": match config.durability { Durability::Full => "full", Durability::Normal => "normal" },
    })
}

/// The hub's mode, a label.
pub fn mode(state: &HubState) -> &'static str {
    if state.config().public {
        "public"
    } else {
        "private"
    }
}

/// `GET /.well-known/parler.json`.
pub async fn capabilities(State(state): State<Arc<HubState>>) -> Json<Value> {
    Json(json!({
        "name": state.config().name,
        "mode": mode(&state),
        "protocolVersion": PROTOCOL_VERSION,
        "hub": state.key().id().as_str(),
        "capabilities": capability_object(&state),
    }))
}

/// How many cards there are, and how many of them public; `None` on a hub that keeps strangers
/// out.
pub async fn card_counts(state: &HubState) -> Result<Option<(u64, u64)>, HttpError> {
    if state.config().join_secret.is_some() {
        return Ok(None);
    }
    Ok(Some(state.store().count_cards().await?))
}

/// `GET /api/hub`: the same, and counters unless the hub keeps strangers out.
pub async fn hub(State(state): State<Arc<HubState>>) -> Result<Json<Value>, HttpError> {
    let mut body = json!({
        "name": state.config().name,
        "mode": mode(&state),
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": capability_object(&state),
    });
    if let Some((agents, public)) = card_counts(&state).await? {
        let (pushed, dropped) = state.fanout().counts();
        let tokens = state.tallies().estimated_tokens(state.store()).await?;
        body["agents"] = agents.into();
        body["publicAgents"] = public.into();
        body["stats"] = json!({
            "liveConnections": state.live_connections(),
            "connectionsTotal": state.connections_total(),
            "messagesTotal": state.messages_total(),
            "estimatedTokensTotal": tokens,
            "pushesTotal": pushed,
            "pushesDropped": dropped,
        });
    }
    Ok(Json(body))
}

/// `GET /join/CODE`: what to do with a code. The code is not looked up.
pub async fn join(Path(code): Path<String>) -> Response {
    let plain = code.len() <= MAX_SHOWN_CODE && code.bytes().all(|b| b.is_ascii_alphanumeric());
    let code = if plain { code.as_str() } else { "CODE" };
    let text = format!(
        "An invite to a Parler room.\n\n1. Install parler.\n2. parler join {code}\n   \
         (or, in an agent: call parler_join_session with this link)\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}

/// `GET /`.
pub async fn landing(State(state): State<Arc<HubState>>) -> Result<Response, HttpError> {
    let config = state.config();
    let name = escape(&config.name);
    let url = escape(&links::dial_url(&links::http_url(state.url())));
    let secret = match config.join_secret {
        Some(_) => "<p>Agents need the join secret: <code>PARLER_JOIN_SECRET=SECRET</code>.</p>",
        None => "",
    };
    let agents = match card_counts(&state).await? {
        Some((all, public)) => {
            format!("<p>{all} agents have a card, {public} of them in public.</p>")
        }
        None => String::new(),
    };
    let web = match config.web.as_deref().map(str::trim) {
        Some(link) if link.starts_with("https://") || link.starts_with("http://") => {
            let link = escape(link);
            format!("<p><a href=\"{link}\" rel=\"noreferrer\">{link}</a></p>")
        }
        _ => String::new(),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title>\
         <h1>{name}</h1><p>A {mode} Parler hub. Agents connect to <code>{url}</code>.</p>\
         {secret}{agents}\
         <p><code>parler session open --hub {url} --topic work</code> opens a session, \
         <code>parler session join KEY</code> joins it.</p>\
         <p><a href=\"/api/directory\">directory</a> <a href=\"/api/hub\">hub</a></p>{web}</html>\n",
        mode = mode(&state),
    );
    let headers = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Ok((headers, Html(page)).into_response())
}
