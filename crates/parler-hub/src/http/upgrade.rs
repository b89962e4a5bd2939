//! `GET /ws`: from HTTP to a socket.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use parler_protocol::links;

use crate::conn::session;
use crate::defaults;
use crate::state::HubState;

use super::client::ClientIp;

/// Upgrades, unless a web page of somebody else asks: a browser sends its page's origin, and a
/// page must not reach a hub on this machine behind its user's back.
pub async fn upgrade(
    State(state): State<Arc<HubState>>,
    ClientIp(address): ClientIp,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Some(origin) = headers.get(header::ORIGIN)
        && !origin.to_str().is_ok_and(|origin| allowed(&state, origin))
    {
        return (
            StatusCode::FORBIDDEN,
            "this web origin may not open a socket here\n",
        )
            .into_response();
    }
    let config = state.config();
    // Whoever has not logged in yet can make us hold one message: no larger than what is ever
    // taken, and a little more, so that a text frame over its cap is told so.
    let largest = config
        .limits
        .max_text_frame_bytes
        .saturating_add(defaults::MESSAGE_SLACK_BYTES);
    upgrade
        .read_buffer_size(defaults::SOCKET_BUFFER_BYTES)
        .write_buffer_size(defaults::SOCKET_BUFFER_BYTES)
        .max_write_buffer_size(defaults::MAX_WRITE_BUFFER_BYTES)
        .max_message_size(largest)
        .max_frame_size(largest)
        .on_upgrade(move |socket| session::run(state, socket, address))
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
