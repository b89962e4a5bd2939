//! What the hub serves beside sockets, and the upgrade itself.

pub mod accept;
mod limiter;
mod pages;
mod upgrade;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::state::HubState;

/// Every route, one line each.
pub fn router(state: Arc<HubState>) -> Router {
    Router::new()
        .route("/", get(pages::landing))
        .route("/api/hub", get(pages::hub))
        .route("/join/{code}", get(pages::join))
        .route("/.well-known/parler.json", get(pages::capabilities))
        .route("/ws", get(upgrade::upgrade))
        .layer(from_fn_with_state(Arc::clone(&state), limiter::limit))
        .route("/health", get(pages::health))
        .with_state(state)
}
