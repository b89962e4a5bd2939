//! Small read-only answers: health, capabilities, invite page, landing page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use parler_protocol::parts::ADVERTISED_KINDS;
use parler_protocol::{PROTOCOL_VERSION, links};
use parler_store_sqlite::Durability;
use serde_json::{Value, json};

use crate::state::HubState;

/// A longer code is no code and is not reflected.
const MAX_SHOWN_CODE: usize = 64;

/// `GET /health`.
pub async fn health() -> &'static str {
    "ok"
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

fn mode(state: &HubState) -> &'static str {
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

/// `GET /api/hub`: the same, and counters unless the hub keeps strangers out.
pub async fn hub(State(state): State<Arc<HubState>>) -> Json<Value> {
    let mut body = json!({
        "name": state.config().name,
        "mode": mode(&state),
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": capability_object(&state),
    });
    if state.config().join_secret.is_none() {
        let (pushed, dropped) = state.fanout().counts();
        body["stats"] = json!({
            "liveConnections": state.live_connections(),
            "connectionsTotal": state.connections_total(),
            "messagesTotal": state.messages_total(),
            "pushesTotal": pushed,
            "pushesDropped": dropped,
        });
    }
    Json(body)
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
pub async fn landing(State(state): State<Arc<HubState>>) -> Response {
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
    };
    let name = escape(&state.config().name);
    let url = escape(&links::dial_url(state.url()));
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title>\
         <h1>{name}</h1><p>A Parler hub. Agents connect to <code>{url}</code>.</p>\
         <p><code>parler session open --topic work</code> opens a session, \
         <code>parler session join KEY</code> joins it.</p></html>\n"
    );
    let headers = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, Html(page)).into_response()
}
