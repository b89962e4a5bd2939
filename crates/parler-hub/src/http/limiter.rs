//! So many requests of one address a minute, and as many upgrades to a socket.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::client::ClientIp;
use super::error::HttpError;
use crate::now_ms;
use crate::state::HubState;

/// Refuses with 429 over the budget.
pub async fn limit(State(state): State<Arc<HubState>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let ip = ClientIp::of(&state, &parts);
    let budget = match parts.uri.path() {
        "/ws" => &state.budgets().upgrades,
        _ => &state.budgets().http,
    };
    if budget.spend(&ip.key(), now_ms()).is_err() {
        return HttpError::TooMany("requests").into_response();
    }
    next.run(Request::from_parts(parts, body)).await
}
