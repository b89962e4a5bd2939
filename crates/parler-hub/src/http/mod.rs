//! What the hub serves beside sockets, and the upgrade itself.

mod a2a;
pub mod accept;
mod admin;
mod auth;
mod blob;
mod client;
mod cors;
mod directory;
mod error;
mod events;
mod html;
mod limiter;
pub mod metrics;
mod pages;
mod project;
mod room;
mod session;
mod stall;
mod upgrade;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

pub use events::Streams;

use crate::state::HubState;

/// Every route, one line each.
pub fn router(state: Arc<HubState>) -> Router {
    Router::new()
        .route("/", get(pages::landing))
        .route("/join/{code}", get(pages::join))
        .route("/ws", get(upgrade::upgrade))
        .route("/api/hub", get(pages::hub))
        .route("/api/directory", get(directory::list))
        .route("/api/agents/{id}", get(directory::one))
        .route("/api/session", get(session::session))
        .route("/api/session/blob/{id}", get(blob::blob))
        .route("/api/room/messages", get(room::messages))
        .route("/api/room/roster", get(room::roster))
        .route("/api/room/cards", get(room::cards))
        .route("/api/room/events", get(events::events))
        .route("/api/room/admin/{act}", post(admin::act))
        .route("/.well-known/parler.json", get(pages::capabilities))
        .route("/.well-known/agent-card.json", get(a2a::hub))
        .route("/a2a/directory", get(a2a::directory))
        .route("/a2a/agents/{id}", get(a2a::agent))
        .layer(from_fn_with_state(Arc::clone(&state), limiter::limit))
        .route("/health", get(pages::health))
        .layer(from_fn(cors::layer))
        .with_state(state)
}
