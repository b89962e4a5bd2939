//! What all parts of one client share: who it is, what it has committed, and the bells that ring
//! when something may be new.
//!
//! Holds no connection. Locks are held for single statements only, never over a wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_protocol::{Pulled, ServerFrame, StoredMessage, clean, links};
use tokio::sync::broadcast;

use crate::error::{ClientError, words};
use crate::inbox::Inbox;
use crate::keepalive::Pace;
use crate::link::Request;
use crate::options::{ClientOptions, LONGEST};

/// Bells that a waiter may be behind by; one that is further behind looks anyway.
const BELLS: usize = 64;

/// Says that looking may be worth while.
#[derive(Clone, Debug)]
pub(crate) enum Bell {
    /// Something was pushed for this room.
    Room(Arc<str>),
    /// The connection is a new one: what was pushed meanwhile is lost, the log has it.
    Reconnected,
    /// The connection ended for good: the hub refused this agent, or sent it away.
    GaveUp(ClientError),
}

/// See the module.
pub(crate) struct Shared {
    /// With name and role cleaned.
    pub(crate) options: ClientOptions,
    /// What is dialled.
    pub(crate) dial_url: String,
    /// The same, fit to be shown.
    pub(crate) shown_url: String,
    /// Rhythm of waits and heartbeats.
    pub(crate) pace: Pace,
    /// Pushed messages.
    pub(crate) pushes: Inbox<StoredMessage>,
    /// All other pushed frames.
    pub(crate) notices: Inbox<ServerFrame>,
    bells: broadcast::Sender<Bell>,
    /// Pushes are on, or will be as soon as the connection is back.
    pub(crate) subscribed: Flag,
    /// A login succeeded at some time: an outage is worth outliving.
    pub(crate) known_good: Flag,
    /// The hub answers a parked pull at once: it is an old one.
    pub(crate) hub_never_parks: Flag,
    /// The warnings that are given once a client.
    pub(crate) warned_version: Flag,
    pub(crate) warned_plain: Flag,
    committed: Mutex<HashMap<String, i64>>,
    presence: Mutex<Option<Request>>,
}

/// A switch that is read and set from several tasks.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets it and says what it was.
    pub(crate) fn set(&self, to: bool) -> bool {
        self.0.swap(to, Ordering::AcqRel)
    }
}

impl Shared {
    pub(crate) fn new(mut options: ClientOptions, pace: Pace) -> Arc<Self> {
        options.name = clean::name(&options.name);
        options.timeouts.connect = options.timeouts.connect.min(LONGEST);
        options.timeouts.request = options.timeouts.request.min(LONGEST);
        options.role = options.role.as_deref().map(clean::name);
        let dial_url = links::dial_url(&options.endpoint.url);
        Arc::new(Shared {
            shown_url: words(&dial_url),
            dial_url,
            options,
            pace,
            pushes: Inbox::new(),
            notices: Inbox::new(),
            bells: broadcast::Sender::new(BELLS),
            subscribed: Flag::default(),
            known_good: Flag::default(),
            hub_never_parks: Flag::default(),
            warned_version: Flag::default(),
            warned_plain: Flag::default(),
            committed: Mutex::default(),
            presence: Mutex::default(),
        })
    }

    /// Puts away what came unasked, `bytes` long, and rings.
    pub(crate) fn take_push(&self, frame: ServerFrame, bytes: usize) {
        match frame {
            ServerFrame::Delivery(delivery) => {
                let room: Arc<str> = delivery.message.room.as_str().into();
                self.pushes.push(delivery.message, bytes);
                self.ring(Bell::Room(room));
            }
            other => self.notices.push(other, bytes),
        }
    }

    /// Rings; nobody may be listening.
    pub(crate) fn ring(&self, bell: Bell) {
        let _ = self.bells.send(bell);
    }

    /// Hears the bells from now on.
    pub(crate) fn bells(&self) -> broadcast::Receiver<Bell> {
        self.bells.subscribe()
    }

    /// How far this client has committed in a room; 0 before the first time.
    pub(crate) fn committed(&self, room: &str) -> i64 {
        lock(&self.committed).get(room).copied().unwrap_or(0)
    }

    /// Notes a commit that the hub has confirmed.
    pub(crate) fn note_commit(&self, room: &str, seq: i64) {
        let mut committed = lock(&self.committed);
        let known = committed.entry(room.to_owned()).or_insert(seq);
        *known = seq.max(*known);
    }

    /// Learns from an unread page how far the hub is: what it calls unread is not committed. A hub
    /// that was restored goes back, and an old commit repeated to it would swallow new messages
    /// once its room has grown past it.
    pub(crate) fn note_unread(&self, room: &str, page: &Pulled) {
        let Some(first) = page.messages.iter().map(|message| message.seq).min() else {
            return;
        };
        if let Some(known) = lock(&self.committed).get_mut(room) {
            *known = first.saturating_sub(1).min(*known);
        }
    }

    /// The last presence that this client gave: a login resets it on the hub.
    pub(crate) fn presence(&self) -> Option<Request> {
        lock(&self.presence).clone()
    }

    /// Notes a presence that the hub has confirmed.
    pub(crate) fn note_presence(&self, presence: Request) {
        *lock(&self.presence) = Some(presence);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
