//! So many requests of one address a minute, and as many upgrades to a socket.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::now_ms;
use crate::rate::address_key;
use crate::state::HubState;

/// The address that a request comes from, for whatever is counted by address.
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(pub IpAddr);

/// Refuses with 429 over the budget.
pub async fn limit(
    State(state): State<Arc<HubState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let ip = client_ip(&state, peer, request.headers());
    request.extensions_mut().insert(ClientIp(ip));
    let budget = match request.uri().path() {
        "/ws" => &state.budgets().upgrades,
        _ => &state.budgets().http,
    };
    if budget.spend(&address_key(ip), now_ms()).is_err() {
        let body = "rate limit: too many requests from this address, try again in a minute\n";
        let headers = [
            (header::RETRY_AFTER, "60"),
            (header::CONTENT_TYPE, "text/plain"),
        ];
        return (StatusCode::TOO_MANY_REQUESTS, headers, body).into_response();
    }
    next.run(request).await
}

/// The client's address: what a trusted proxy says (the last hop that it saw), else the peer.
fn client_ip(state: &HubState, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
    if !state.config().trust_proxy_headers {
        return peer.ip();
    }
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let direct = header("fly-client-ip").and_then(|v| v.trim().parse().ok());
    let forwarded = || {
        header("x-forwarded-for")
            .and_then(|v| v.rsplit(',').next())
            .and_then(|v| v.trim().parse().ok())
    };
    direct.or_else(forwarded).unwrap_or(peer.ip())
}
