//! What an identity was woken for, and which messages it has seen: once per thing, across hooks,
//! watchers, MCP servers, workers and their restarts.
//!
//! A thing is (message, take): a turn that was given back wakes again under its next take. It is
//! *submitted* when a doorbell was rung for it and *confirmed* when the woken host was seen to
//! act. Only confirmed is final; what was only submitted is rung again by the next rung, or in a
//! new session of the host. Beside that the pair of author and `uid` of every message that was
//! acted on is remembered with the message's id: the same message offered again is fresh, any
//! other one with that pair is a replay.
//!
//! One append-only log an identity, `<base>/once/<hash>.log`, one line a fact, newest
//! [`MAX_ENTRIES`] kept. Every use holds the lock beside it, for at most [`LOCK_WAIT`]. A line
//! that a crash cut short is passed over; at worst a bell rings twice.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use parler_protocol::{SigPart, StoredMessage};
use serde::{Deserialize, Serialize};

use crate::lock;
use crate::naming::digest;
use crate::platform::{private_file, replace_private};

/// Facts that one identity remembers. At 240 sends a minute into a room, which is what a hub
/// takes, more than an hour of messages that all wake; in practice months.
pub const MAX_ENTRIES: usize = 16_384;
/// How many facts more the log may hold before it is written anew: rewriting is rare then.
const SLACK: usize = 4_096;
/// How long a use waits for another process; each holds the lock for a few milliseconds.
pub const LOCK_WAIT: Duration = Duration::from_secs(1);
/// A log beyond this is not ours to read.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// Something that may wake an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thing<'a> {
    /// Message id.
    pub message: &'a str,
    /// Which take of its turn; 0 for anything that is no turn, or an open one never taken.
    pub take: i64,
}

/// What is known of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody was woken for it.
    New,
    /// A bell was rung for it and nobody was seen to act yet.
    Submitted,
    /// Its host acted. Final.
    Confirmed,
}

/// Whether to ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// Yes; it is noted as submitted.
    Ring,
    /// This session was rung for it already: only its next rung may ring again.
    Pending,
    /// It is confirmed.
    Done,
    /// This session gave the turn up, or did not wake for it.
    GivenUp,
}

/// Whether a signed message is what it seems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Never seen, or the very same message again.
    Fresh,
    /// An older message offered under another id.
    Replay,
}

/// Why the ledger could not be used. Then nobody is woken: better late than twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// Another process holds it for too long.
    #[error("another process holds {} for too long", .0.display())]
    Busy(PathBuf),
    /// The system refused.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "k")]
enum Fact {
    /// First line: tells one writing of the log from the next.
    #[serde(rename = "log")]
    Log { generation: u64 },
    #[serde(rename = "s")]
    Submitted { m: String, t: i64, by: String },
    #[serde(rename = "c")]
    Confirmed { m: String, t: i64 },
    /// A session does not take this message's turn any more.
    #[serde(rename = "g")]
    GivenUp { m: String, by: String },
    /// A person spoke in that session: what it gave up counts no longer.
    #[serde(rename = "p")]
    Person { by: String },
    #[serde(rename = "u")]
    Seen { pair: String, m: String },
}

/// What the log says, and how far it was read.
#[derive(Debug, Default)]
struct Known {
    /// Of the log that was read; 0: none yet.
    generation: u64,
    /// Bytes of it that were read.
    end: u64,
    /// The last line was cut short by a crash.
    torn: bool,
    /// Facts in it.
    count: usize,
    submitted: HashMap<(String, i64), String>,
    confirmed: HashSet<(String, i64)>,
    given_up: HashSet<(String, String)>,
    seen: HashMap<String, String>,
}

impl Known {
    fn answer(&self, m: &str, take: i64, by: &str) -> Submit {
        let key = (m.to_owned(), take);
        if self.confirmed.contains(&key) {
            Submit::Done
        } else if self.given_up.contains(&(m.to_owned(), by.to_owned())) {
            Submit::GivenUp
        } else if self
            .submitted
            .get(&key)
            .is_some_and(|session| session == by)
        {
            Submit::Pending
        } else {
            Submit::Ring
        }
    }

    fn note(&mut self, fact: Fact) {
        self.count += 1;
        match fact {
            Fact::Log { .. } => self.count -= 1,
            Fact::Submitted { m, t, by } => {
                self.submitted.insert((m, t), by);
            }
            Fact::Confirmed { m, t } => {
                self.confirmed.insert((m, t));
            }
            Fact::GivenUp { m, by } => {
                self.given_up.insert((m, by));
            }
            Fact::Person { by } => self.given_up.retain(|(_, session)| *session != by),
            Fact::Seen { pair, m } => {
                // The first message of a pair is the genuine one.
                self.seen.entry(pair).or_insert(m);
            }
        }
    }
}

/// The ledger of one identity.
#[derive(Debug)]
pub struct Once {
    log: PathBuf,
    lock: PathBuf,
    known: Mutex<Known>,
}

/// Ids come from a hub and may be anything: what is not short is kept as a hash.
fn short(id: &str) -> String {
    if id.len() <= 64 {
        id.to_owned()
    } else {
        digest(&[id.as_bytes()])
    }
}

impl Once {
    /// Opens the ledger of an identity in the base home; reads and creates nothing yet.
    #[must_use]
    pub fn open(base: &Path, identity: &str) -> Self {
        let name = digest(&[identity.as_bytes()]);
        let dir = base.join("once");
        Self {
            log: dir.join(format!("{name}.log")),
            lock: dir.join(format!("{name}.lock")),
            known: Mutex::default(),
        }
    }

    /// Asks whether to ring for a thing in a session of the host, and notes that it is rung.
    ///
    /// # Errors
    /// See [`OnceError`]; then do not ring.
    pub fn submit(&self, thing: Thing<'_>, session: &str) -> Result<Submit, OnceError> {
        let (m, t, by) = (short(thing.message), thing.take, short(session));
        self.with(|known| {
            let answer = known.answer(&m, t, &by);
            let fact = Fact::Submitted { m, t, by };
            (answer, (answer == Submit::Ring).then_some(fact))
        })
    }

    /// What [`Once::submit`] would say; notes nothing.
    ///
    /// # Errors
    /// See [`OnceError`]; then do not ring.
    pub fn ask(&self, thing: Thing<'_>, session: &str) -> Result<Submit, OnceError> {
        let (m, by) = (short(thing.message), short(session));
        self.with(|known| (known.answer(&m, thing.take, &by), None))
    }

    /// Notes that the host acted on the thing.
    ///
    /// # Errors
    /// See [`OnceError`].
    pub fn confirm(&self, thing: Thing<'_>) -> Result<(), OnceError> {
        let m = short(thing.message);
        self.with(|known| {
            let is_new = !known.confirmed.contains(&(m.clone(), thing.take));
            let fact = Fact::Confirmed { m, t: thing.take };
            ((), is_new.then_some(fact))
        })
    }

    /// What is known of the thing.
    ///
    /// # Errors
    /// See [`OnceError`].
    pub fn standing(&self, thing: Thing<'_>) -> Result<Standing, OnceError> {
        let key = (short(thing.message), thing.take);
        self.with(|known| {
            let standing = if known.confirmed.contains(&key) {
                Standing::Confirmed
            } else if known.submitted.contains_key(&key) {
                Standing::Submitted
            } else {
                Standing::New
            };
            (standing, None)
        })
    }

    /// Notes that a session gave the turn of this message back, or did not wake for it: it is not
    /// woken for it again, under whatever take, until a new session or [`Once::person_spoke`].
    ///
    /// # Errors
    /// See [`OnceError`].
    pub fn give_up(&self, message: &str, session: &str) -> Result<(), OnceError> {
        let (m, by) = (short(message), short(session));
        self.with(|known| {
            let is_new = !known.given_up.contains(&(m.clone(), by.clone()));
            ((), is_new.then_some(Fact::GivenUp { m, by }))
        })
    }

    /// Notes that a person's prompt reached that session.
    ///
    /// # Errors
    /// See [`OnceError`].
    pub fn person_spoke(&self, session: &str) -> Result<(), OnceError> {
        let by = short(session);
        self.with(|known| {
            let counts = known.given_up.iter().any(|(_, session)| *session == by);
            ((), counts.then_some(Fact::Person { by }))
        })
    }

    /// Judges a validly signed message by its author and `uid`, and remembers the pair.
    ///
    /// # Errors
    /// See [`OnceError`]; then do not act on it.
    pub fn admit(&self, message: &StoredMessage, sig: &SigPart) -> Result<Freshness, OnceError> {
        let pair = digest(&[message.from.id.as_bytes(), sig.uid.as_bytes()]);
        let m = short(&message.id);
        self.with(|known| match known.seen.get(&pair) {
            Some(first) if *first == m => (Freshness::Fresh, None),
            Some(_) => (Freshness::Replay, None),
            None => (Freshness::Fresh, Some(Fact::Seen { pair, m })),
        })
    }

    /// Reads what is new, asks, and writes the fact that the answer makes: all under the lock.
    fn with<T>(&self, ask: impl FnOnce(&Known) -> (T, Option<Fact>)) -> Result<T, OnceError> {
        let failed = |source| OnceError::Io {
            path: self.log.clone(),
            source,
        };
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        let _lock = lock::exclusive(&self.lock, LOCK_WAIT)
            .map_err(failed)?
            .ok_or_else(|| OnceError::Busy(self.log.clone()))?;
        let mut file = private_file(&self.log, true).map_err(failed)?;
        catch_up(&mut file, &mut known).map_err(failed)?;
        let (answer, fact) = ask(&known);
        if let Some(fact) = fact {
            append(&mut file, &mut known, fact).map_err(failed)?;
            if known.count > MAX_ENTRIES + SLACK {
                rewrite(&self.log, &mut file, &mut known).map_err(failed)?;
            }
        }
        Ok(answer)
    }
}

fn line(fact: &Fact) -> Vec<u8> {
    // Strings and numbers: it serialises.
    let mut line = serde_json::to_vec(fact).unwrap_or_default();
    line.push(b'\n');
    line
}

fn facts(text: &[u8]) -> impl Iterator<Item = Fact> + '_ {
    text.split(|&b| b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

/// The mark of the log's present writing; 0 when it has none.
fn generation(file: &mut File) -> io::Result<u64> {
    let mut start = Vec::with_capacity(64);
    file.seek(SeekFrom::Start(0))?;
    (&*file).take(64).read_to_end(&mut start)?;
    let first = start.split(|&b| b == b'\n').next().unwrap_or_default();
    Ok(match serde_json::from_slice(first) {
        Ok(Fact::Log { generation }) => generation,
        _ => 0,
    })
}

/// Reads what other processes wrote since the last time; all of it when the log was written anew.
fn catch_up(file: &mut File, known: &mut Known) -> io::Result<()> {
    let len = file.metadata()?.len();
    if len == 0 {
        *known = Known::default();
        return append(file, known, new_log());
    }
    let generation = generation(file)?;
    if generation == 0 || generation != known.generation || known.end > len {
        *known = Known {
            generation,
            end: len.saturating_sub(MAX_LOG_BYTES),
            ..Known::default()
        };
    }
    if known.end < len {
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(known.end))?;
        (&*file).take(MAX_LOG_BYTES).read_to_end(&mut text)?;
        facts(&text).for_each(|fact| known.note(fact));
        known.torn = !text.ends_with(b"\n");
        known.end = len;
    }
    Ok(())
}

fn new_log() -> Fact {
    Fact::Log {
        generation: fastrand::u64(1..),
    }
}

fn append(file: &mut File, known: &mut Known, fact: Fact) -> io::Result<()> {
    let mut text = line(&fact);
    if known.torn {
        text.insert(0, b'\n');
    }
    file.write_all(&text)?;
    known.torn = false;
    known.end += text.len() as u64;
    if let Fact::Log { generation } = fact {
        known.generation = generation;
    }
    known.note(fact);
    Ok(())
}

/// Writes the log anew with its newest facts: whole or not at all.
fn rewrite(path: &Path, file: &mut File, known: &mut Known) -> io::Result<()> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    (&*file).take(MAX_LOG_BYTES).read_to_end(&mut text)?;
    let mut all: Vec<Fact> = facts(&text)
        .filter(|fact| !matches!(fact, Fact::Log { .. }))
        .collect();
    let newest = all.split_off(all.len().saturating_sub(MAX_ENTRIES));
    let mut text = line(&new_log());
    newest.iter().for_each(|fact| text.extend(line(fact)));
    replace_private(path, &text)?;
    *known = Known::default();
    Ok(())
}

#[cfg(test)]
#[path = "once_tests.rs"]
mod tests;
