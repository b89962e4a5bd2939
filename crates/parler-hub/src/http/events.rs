//! `GET /api/room/events`: a room as a stream of events, for who watches it with a full token.
//!
//! Each piece is read from the store when the socket has taken the one before: a slow reader holds
//! one piece and nobody up. Every read looks at the token again, and whatever ends one (a
//! revocation, the room's deletion, its last millisecond) or the hub ends the stream at once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use parler_protocol::Seq;
use parler_store::{CodeHash, LogEntry};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::client::ClientIp;
use super::error::HttpError;
use super::session::PRIVATE;
use super::{auth, room};
use crate::state::HubState;
use crate::waiters::Parked;
use crate::{defaults, now_ms};

/// Open streams, by token.
#[derive(Debug, Default)]
pub struct Streams {
    open: Arc<Mutex<HashMap<CodeHash, usize>>>,
}

/// The place of one stream; dropping it frees the place.
struct Place {
    open: Arc<Mutex<HashMap<CodeHash, usize>>>,
    token: CodeHash,
}

impl Streams {
    /// Streams that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.open).values().sum()
    }

    fn enter(&self, token: CodeHash) -> Option<Place> {
        let mut open = lock(&self.open);
        let mine = open.get(&token).copied().unwrap_or(0);
        let all: usize = open.values().sum();
        if mine >= defaults::MAX_STREAMS_PER_TOKEN || all >= defaults::MAX_STREAMS {
            return None;
        }
        open.insert(token, mine + 1);
        Some(Place {
            open: Arc::clone(&self.open),
            token,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.token);
            }
        }
    }
}

fn lock(
    open: &Mutex<HashMap<CodeHash, usize>>,
) -> std::sync::MutexGuard<'_, HashMap<CodeHash, usize>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where to begin.
#[derive(Deserialize)]
pub struct Begin {
    after: Option<i64>,
}

/// Opens a stream after `Last-Event-ID`, else after `after`, else at the beginning.
pub async fn events(
    State(state): State<Arc<HubState>>,
    ip: ClientIp,
    headers: HeaderMap,
    Query(begin): Query<Begin>,
) -> Result<Response, HttpError> {
    let good = auth::full(&state, ip, &headers).await?;
    let room = good.row.room.ok_or_else(auth::ended)?;
    let place = state
        .streams()
        .enter(good.hash)
        .ok_or(HttpError::Busy("too many open streams: close one"))?;
    let resumed = headers.get("last-event-id");
    let resumed = resumed.and_then(|v| v.to_str().ok()?.trim().parse().ok());
    let left = u64::try_from(good.row.expires_at - now_ms()).unwrap_or(0);
    let now = Instant::now();
    let stream = Stream {
        parked: state.waiters().park(&room),
        stopping: state.stopping(),
        state,
        _place: place,
        token: good.hash,
        last: Seq(resumed.or(begin.after).unwrap_or(0)),
        ends: now + Duration::from_millis(left).min(defaults::FAR),
        begun: false,
        look_at: now,
        presence: 0,
        spoke: now,
    };
    let body = futures_util::stream::unfold(stream, async |mut stream| {
        let piece = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), stream))
    });
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // A proxy that gathers the answer would hold the events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((PRIVATE, kind, Body::from_stream(body)).into_response())
}

struct Stream {
    state: Arc<HubState>,
    _place: Place,
    token: CodeHash,
    parked: Parked,
    stopping: watch::Receiver<bool>,
    last: Seq,
    ends: Instant,
    begun: bool,
    /// When to look who is there again.
    look_at: Instant,
    /// Digest of who was there.
    presence: u64,
    /// When something was written last.
    spoke: Instant,
}

impl Stream {
    /// The next piece; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.begun, true) {
            // The answer's head leaves with the first piece, however silent the room is.
            return Some(Bytes::from_static(b"retry: 2000\n\n"));
        }
        loop {
            if *self.stopping.borrow() || Instant::now() >= self.ends {
                return None;
            }
            if let Some(piece) = self.read().await? {
                self.spoke = Instant::now();
                return Some(piece);
            }
            let heartbeat = self.spoke + defaults::STREAM_HEARTBEAT;
            let wake = heartbeat.min(self.look_at).min(self.ends);
            tokio::select! {
                () = self.parked.grew() => {}
                () = sleep_until(wake) => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
            }
            if Instant::now() >= heartbeat {
                self.spoke = Instant::now();
                return Some(Bytes::from_static(b": \n\n"));
            }
        }
    }

    /// What is new: `Some(None)` is nothing, `None` the end.
    async fn read(&mut self) -> Option<Option<Bytes>> {
        let state = Arc::clone(&self.state);
        let (store, now) = (state.store(), now_ms());
        let page = store.watched_log(self.token, now, self.last, defaults::STREAM_PAGE);
        let page = page.await.ok()??;
        if let Some(last) = page.last() {
            self.last = last.seq;
            return Some(Some(messages(&page)));
        }
        if Instant::now() < self.look_at {
            return Some(None);
        }
        self.look_at = Instant::now() + defaults::STREAM_PRESENCE;
        let room = store.watched_room(self.token, now).await.ok()??;
        let members = room::members(&self.state, room, now);
        let mut digest = DefaultHasher::new();
        for member in &members {
            member.state().hash(&mut digest);
        }
        let digest = digest.finish() | 1;
        if std::mem::replace(&mut self.presence, digest) == digest {
            return Some(None);
        }
        let json = serde_json::json!({ "members": members });
        Some(Some(format!("event: presence\ndata: {json}\n\n").into()))
    }
}

/// Messages as events. The stored JSON may be laid out over lines, which would end an event's
/// field; inside strings there are none.
fn messages(page: &[LogEntry]) -> Bytes {
    let bytes: usize = page.iter().map(|entry| entry.json.len() + 64).sum();
    let mut text = String::with_capacity(bytes);
    for entry in page {
        text.push_str("id: ");
        text.push_str(&entry.seq.0.to_string());
        text.push_str("\nevent: message\ndata: ");
        if entry.json.contains(['\n', '\r']) {
            text.push_str(&entry.json.replace(['\n', '\r'], " "));
        } else {
            text.push_str(&entry.json);
        }
        text.push_str("\n\n");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{AgentId, RoomName};

    #[test]
    fn a_message_over_several_lines_is_one_event() {
        let entry = LogEntry {
            seq: Seq(7),
            id: "m".into(),
            room: RoomName::new("r"),
            author: AgentId::trusted("U"),
            json: "{\"a\":\r\n 1}".into(),
        };
        assert_eq!(
            messages(&[entry]),
            "id: 7\nevent: message\ndata: {\"a\":   1}\n\n"
        );
    }

    #[test]
    fn streams_are_bounded_by_token_and_in_all() {
        let streams = Streams::default();
        let mut places: Vec<_> = (0..defaults::MAX_STREAMS_PER_TOKEN)
            .map(|_| streams.enter([1; 32]).unwrap())
            .collect();
        assert!(streams.enter([1; 32]).is_none());
        let mut token = 2;
        while streams.count() < defaults::MAX_STREAMS {
            match streams.enter([token; 32]) {
                Some(place) => places.push(place),
                None => token += 1,
            }
        }
        assert!(streams.enter([255; 32]).is_none());
        drop(places);
        assert_eq!(streams.count(), 0);
        assert!(lock(&streams.open).is_empty());
    }
}
