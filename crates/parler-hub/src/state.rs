//! The handle that connections and ops work with.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parler_identity::KeyPair;
use parler_protocol::AgentId;
use parler_store::{BlobReader, Store};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::addresses::{Addresses, Place, share};
use crate::authz::Members;
use crate::blobs::{BlobError, Blobs, OpenBlob};
use crate::bus::Listeners;
use crate::config::Config;
use crate::counts::Counts;
use crate::fanout::{ConnId, Fanout};
use crate::http::Streams;
use crate::live::Live;
use crate::presence::Heard;
use crate::rate::Budgets;
use crate::tally::Tallies;
use crate::tls::Tls;
use crate::turns::TurnNews;
use crate::waiters::Waiters;

/// What one hub is, shared by everything that serves it.
pub struct HubState {
    config: Config,
    url: String,
    hub12: String,
    key: KeyPair,
    store: Arc<dyn Store>,
    blobs: Blobs,
    listeners: Listeners,
    budgets: Budgets,
    members: Members,
    heard: Heard,
    live_agents: Arc<Live>,
    tls: Option<Tls>,
    counts: Counts,
    tallies: Tallies,
    streams: Streams,
    metrics_addr: Option<SocketAddr>,
    stopping: watch::Sender<bool>,
    next_conn: AtomicU64,
    live: AtomicUsize,
    addresses: Arc<Addresses>,
    connections_total: AtomicU64,
    messages_total: AtomicU64,
}

/// Who is at the other end of a connection, as authenticated.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its display name.
    pub name: Arc<str>,
    /// Its role.
    pub role: Option<Arc<str>>,
}

/// One place among the connections; dropping it frees the place.
pub struct Admission {
    state: Arc<HubState>,
    /// Names the connection.
    pub conn: ConnId,
    /// Where it comes from.
    pub address: IpAddr,
    _place: Place,
}

/// Why there is no place for one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The hub is full.
    Hub,
    /// The address has its share.
    Address,
}

impl HubState {
    #[expect(
        clippy::too_many_arguments,
        reason = "called once, by `Hub::open`, which made each of them"
    )]
    pub(crate) fn new(
        config: Config,
        bound: SocketAddr,
        key: KeyPair,
        store: Arc<dyn Store>,
        blobs: Blobs,
        listeners: Listeners,
        tls: Option<Tls>,
        metrics_addr: Option<SocketAddr>,
    ) -> Self {
        let url = config.public_url(bound);
        let digest = Sha256::digest(url.as_bytes());
        let hub12 = digest
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        HubState {
            budgets: Budgets::new(&config.limits),
            config,
            url,
            hub12,
            key,
            store,
            blobs,
            listeners,
            members: Members::default(),
            heard: Heard::default(),
            live_agents: Arc::default(),
            tls,
            counts: Counts::default(),
            tallies: Tallies::default(),
            streams: Streams::default(),
            metrics_addr,
            stopping: watch::Sender::new(false),
            next_conn: AtomicU64::new(1),
            live: AtomicUsize::new(0),
            addresses: Arc::default(),
            connections_total: AtomicU64::new(0),
            messages_total: AtomicU64::new(0),
        }
    }

    /// What the hub was told.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The address that links are made of.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The part of a login challenge that names this hub.
    #[must_use]
    pub fn hub12(&self) -> &str {
        &self.hub12
    }

    /// The hub's own key.
    #[must_use]
    pub fn key(&self) -> &KeyPair {
        &self.key
    }

    /// The durable state.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The blobs.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Opens a blob to be read from a byte on, for an agent or for the holder of a room's token;
    /// notes that it was fetched. `row` says what it is (its `media_type` is whatever a client
    /// wrote), [`crate::blobs::Bytestream::into_stream`] gives `bytes` as the body of an answer.
    ///
    /// # Errors
    /// `Unknown` (404 in HTTP), `Forbidden` (403), `Unavailable` and `Store` (500).
    pub async fn open_blob(
        &self,
        reader: &BlobReader,
        id: &str,
        offset: u64,
    ) -> Result<OpenBlob, BlobError> {
        self.blobs.read(reader, id, offset).await
    }

    /// Live subscribers.
    #[must_use]
    pub fn fanout(&self) -> &Arc<Fanout> {
        &self.listeners.fanout
    }

    /// Parked pulls.
    #[must_use]
    pub fn waiters(&self) -> &Arc<Waiters> {
        &self.listeners.waiters
    }

    /// Who is connected.
    #[must_use]
    pub fn live(&self) -> &Arc<Live> {
        &self.live_agents
    }

    /// News of turns.
    #[must_use]
    pub fn turn_news(&self) -> &Arc<TurnNews> {
        &self.listeners.turns
    }

    /// Parked redeems.
    #[must_use]
    pub fn askers(&self) -> &Arc<Waiters> {
        &self.listeners.askers
    }

    /// Rates.
    #[must_use]
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Memberships.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Who was heard of when.
    #[must_use]
    pub fn heard(&self) -> &Heard {
        &self.heard
    }

    /// The certificate, if the hub speaks TLS by itself.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// What was done how often.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What was said, for whom it is counted.
    #[must_use]
    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// Open event streams.
    #[must_use]
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Where the metrics are served, if they are.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Takes a place among the connections.
    ///
    /// # Errors
    /// Why there is none.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Admission, NoPlace> {
        let cap = self.config.limits.max_connections;
        let place = self.addresses.take(address, share(cap));
        let place = place.ok_or(NoPlace::Address)?;
        let admitted = self
            .live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < cap).then_some(n + 1)
            });
        if admitted.is_err() {
            return Err(NoPlace::Hub);
        }
        self.connections_total.fetch_add(1, Ordering::Relaxed);
        let conn = ConnId(self.next_conn.fetch_add(1, Ordering::Relaxed));
        Ok(Admission {
            state: Arc::clone(self),
            conn,
            address,
            _place: place,
        })
    }

    /// Open connections.
    #[must_use]
    pub fn live_connections(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Connections accepted since the start.
    #[must_use]
    pub fn connections_total(&self) -> u64 {
        self.connections_total.load(Ordering::Relaxed)
    }

    /// Counts an appended message.
    pub fn count_message(&self) {
        self.messages_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages appended since the start.
    #[must_use]
    pub fn messages_total(&self) -> u64 {
        self.messages_total.load(Ordering::Relaxed)
    }

    /// Tells every connection to end.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Becomes true when the hub stops.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.state.live.fetch_sub(1, Ordering::AcqRel);
    }
}
