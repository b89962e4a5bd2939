//! Counters for Prometheus, on a listener of their own: they are the operator's, not the public's.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use parler_store_sqlite::SqliteStore;

use crate::state::HubState;

/// What is measured.
#[derive(Clone)]
pub struct Measured {
    /// The hub.
    pub hub: Arc<HubState>,
    /// Its store.
    pub store: Arc<SqliteStore>,
}

/// The only route of that listener.
pub fn router(measured: Measured) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(measured)
}

async fn metrics(State(measured): State<Measured>) -> Response {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (kind, text(&measured)).into_response()
}

/// All values in the text format. Labels are words of ours, never of a client.
fn text(measured: &Measured) -> String {
    let (hub, store) = (&measured.hub, measured.store.stats());
    let (pushed, dropped) = hub.fanout().counts();
    let budgets = hub.budgets();
    let mut out = String::with_capacity(4096);
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
        let _ = writeln!(
            out,
            "# HELP parler_{name} {help}\n# TYPE parler_{name} {kind}"
        );
        for (label, value) in values {
            let _ = writeln!(out, "parler_{name}{label} {value}");
        }
    };
    let one = |value: u64| [("", value)];
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    metric(
        "connections",
        "gauge",
        "Open sockets.",
        &one(count(hub.live_connections())),
    );
    metric(
        "streams",
        "gauge",
        "Open event streams of watchers.",
        &one(count(hub.streams().count())),
    );
    metric(
        "connections_total",
        "counter",
        "Sockets accepted.",
        &one(hub.connections_total()),
    );
    metric(
        "messages_total",
        "counter",
        "Messages stored.",
        &one(hub.messages_total()),
    );
    metric(
        "pushes_total",
        "counter",
        "Pushes put into an outbox.",
        &one(pushed),
    );
    metric(
        "pushes_dropped_total",
        "counter",
        "Pushes dropped because an outbox was full.",
        &one(dropped),
    );
    metric(
        "store_commits_total",
        "counter",
        "Transactions that changed something.",
        &one(store.commits),
    );
    metric(
        "store_rows_total",
        "counter",
        "Rows inserted, changed or deleted.",
        &one(store.rows),
    );
    metric(
        "store_checkpoints_total",
        "counter",
        "Checkpoints of the store's log.",
        &one(store.checkpoints),
    );
    metric(
        "rate_refusals_total",
        "counter",
        "Requests refused because a budget was spent.",
        &[
            ("{budget=\"ops\"}", budgets.ops.refused()),
            ("{budget=\"sends\"}", budgets.sends.refused()),
            ("{budget=\"room_sends\"}", budgets.room_sends.refused()),
            ("{budget=\"bad_codes\"}", budgets.bad_codes.refused()),
            ("{budget=\"bad_tokens\"}", budgets.bad_tokens.refused()),
            ("{budget=\"http\"}", budgets.http.refused()),
            ("{budget=\"upgrades\"}", budgets.upgrades.refused()),
        ],
    );
    let ops: Vec<(String, u64)> = hub
        .counts()
        .ops()
        .map(|(op, n)| (format!("{{op=\"{op}\"}}"), n))
        .collect();
    let ops: Vec<(&str, u64)> = ops.iter().map(|(label, n)| (label.as_str(), *n)).collect();
    metric(
        "ops_total",
        "counter",
        "Operations asked for by agents that are logged in.",
        &ops,
    );
    out
}
