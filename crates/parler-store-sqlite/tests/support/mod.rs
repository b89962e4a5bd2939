//! Short ways to say things, shared by the tests of this crate.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::Path;
use std::sync::Arc;

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use parler_store::{Append, Appended, LogEntry, NewInvite, ReadFrom, Store};
use parler_store_sqlite::{Durability, OpenOptions, SqliteStore};

pub const T0: i64 = 1_760_000_000_000;

/// Options for a database in a file, with nobody listening.
pub fn options(path: &Path, durability: Durability) -> OpenOptions {
    OpenOptions {
        path: Some(path.to_owned()),
        durability,
        sink: Arc::new(()),
        lock_note: "{\"pid\":1,\"addr\":\"127.0.0.1:7070\"}".into(),
    }
}

pub fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(options(path, Durability::Normal)).unwrap()
}

pub fn agent(number: u8) -> AgentId {
    let last = char::from(b'A' + number);
    AgentId::parse(&format!("U{}{last}", "A".repeat(AgentId::LEN - 2))).unwrap()
}

/// Opens a channel for `owner`; the code is all `code`.
pub async fn open_room(store: &dyn Store, room: &str, owner: &AgentId, code: [u8; 32]) {
    let invite = NewInvite {
        agent: owner.clone(),
        kind: RoomKind::Channel,
        room: RoomName::new(room),
        verbatim: None,
        id: format!("invite-{code:?}"),
        code,
        expires_at: i64::MAX,
        max_uses: 1000,
        gated: false,
        max_owned_rooms: 1000,
        now: T0,
    };
    store.invite(invite).await.unwrap();
}

/// A message with a key, as a hub would pass it: a short text and a signature.
pub fn draft(room: &str, author: &AgentId, key: &str) -> Append {
    let text = "t".repeat(256);
    let sig = "s".repeat(88);
    let parts = format!(
        r#"[{{"kind":"text","text":"{text}"}},{{"kind":"com.parler.sig","sig":"{sig}","ts":1}}]"#
    );
    Append {
        agent: author.clone(),
        name: "ann".into(),
        role: Some("planner".into()),
        room: RoomName::new(room),
        id: format!("m-{key}"),
        parts: parts.into(),
        mentions: None,
        reply_to: None,
        client_id: Some(key.to_owned()),
        digest: Some([7; 32]),
        ledger: None,
        dispatch: Vec::new(),
        join: false,
        now: T0,
    }
}

pub fn stored(outcome: Appended) -> LogEntry {
    match outcome {
        Appended::New(entry) => entry,
        other => panic!("not stored: {other:?}"),
    }
}

/// The whole log of a room.
pub async fn log(store: &dyn Store, room: &str, reader: &AgentId) -> Vec<LogEntry> {
    let mut all: Vec<LogEntry> = Vec::new();
    loop {
        let since = all.last().map_or(Seq(0), |entry| entry.seq);
        let from = ReadFrom::Since(since);
        let page = store.read(&RoomName::new(room), reader, from, 1000).await;
        let page = page.unwrap().expect("a member reads").entries;
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
