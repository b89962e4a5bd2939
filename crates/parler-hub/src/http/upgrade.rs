//! `GET /ws`: from HTTP to a socket.
//!
//! Done here and not by the web framework, because something of ours stands between the stream and
//! the WebSocket library: what keeps binary messages small (`conn::pieces`).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parler_protocol::links;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::conn::pieces::Pieces;
use crate::conn::session;
use crate::defaults;
use crate::state::HubState;

use super::client::ClientIp;

/// Upgrades, unless a web page of somebody else asks: a browser sends its page's origin, and a
/// page must not reach a hub on this machine behind its user's back.
pub async fn upgrade(
    State(state): State<Arc<HubState>>,
    ClientIp(address): ClientIp,
    mut request: Request,
) -> Response {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !origin.to_str().is_ok_and(|origin| allowed(&state, origin))
    {
        return (
            StatusCode::FORBIDDEN,
            "this web origin may not open a socket here\n",
        )
            .into_response();
    }
    let accept = match accept(headers) {
        Ok(accept) => accept,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return (
            StatusCode::UPGRADE_REQUIRED,
            "this connection cannot become a WebSocket\n",
        )
            .into_response();
    };
    tokio::spawn(run(state, upgrade, address));
    let headers = [
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_ACCEPT, accept.as_str()),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn run(state: Arc<HubState>, upgrade: OnUpgrade, address: IpAddr) {
    let Ok(upgraded) = upgrade.await else {
        return; // The peer went away.
    };
    // Whoever has not logged in yet can make us hold one message: no larger than what is ever
    // taken, and a little more, so that a text frame over its cap is told so. Binary messages come
    // in pieces, and count by themselves.
    let largest = state
        .config()
        .limits
        .max_text_frame_bytes
        .max(defaults::PIECE_BYTES)
        .saturating_add(defaults::MESSAGE_SLACK_BYTES);
    let config = WebSocketConfig::default()
        .read_buffer_size(defaults::SOCKET_BUFFER_BYTES)
        .write_buffer_size(defaults::SOCKET_BUFFER_BYTES)
        .max_write_buffer_size(defaults::MAX_WRITE_BUFFER_BYTES)
        .max_message_size(Some(largest))
        .max_frame_size(Some(largest));
    let (stream, marks) = Pieces::new(TokioIo::new(upgraded));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    session::run(state, socket, marks, address).await;
}

/// The proof that we understood: RFC 6455, 4.2.
fn accept(headers: &HeaderMap) -> Result<String, &'static str> {
    let has = |name: HeaderName, token: &str| {
        headers.get_all(name).iter().any(|value| {
            let value = value.to_str().unwrap_or_default();
            value
                .split(',')
                .any(|part| part.trim().eq_ignore_ascii_case(token))
        })
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err("this address is for WebSockets\n");
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err("WebSocket version 13 is spoken here\n");
    }
    match headers.get(header::SEC_WEBSOCKET_KEY) {
        Some(key) => Ok(derive_accept_key(key.as_bytes())),
        None => Err("`Sec-WebSocket-Key` is missing\n"),
    }
}

fn allowed(state: &HubState, origin: &str) -> bool {
    let web = origin.starts_with("http://") || origin.starts_with("https://");
    web && (links::same_hub(origin, state.url())
        || state
            .config()
            .allowed_origins
            .iter()
            .any(|a| links::same_hub(a, origin)))
}
