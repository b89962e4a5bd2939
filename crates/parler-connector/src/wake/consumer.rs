//! Who acts for an identity in a room: one session of one host at a time.
//!
//! Two sessions that share an identity would both be woken for the same message, and both move
//! its cursor. The *activation consumer* of an identity and room is a session: its MCP server
//! holds a lock for as long as it lives, and the hooks and calls of the same session share it.
//! Everybody else learns who holds it, only displays, and moves no cursor.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parler_identity::{KeyFileError, keyfile};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::lock;
use crate::naming::digest;
use crate::platform::{Alive, Proc};

/// A session that acts for an identity in a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The host's short name, or what else acts: `worker`.
    pub host: String,
    /// The host's id of the session; absent: only the process itself is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The process.
    pub process: Option<Proc>,
}

impl Holder {
    /// This process, in that session of that host.
    #[must_use]
    pub fn this(cx: &Context, host: &str, session_id: Option<&str>) -> Self {
        Self {
            host: host.to_owned(),
            session_id: session_id.map(str::to_owned),
            process: cx.processes().look_up(cx.pid()),
        }
    }

    fn same_session(&self, other: &Holder) -> bool {
        match (&self.session_id, &other.session_id) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.process.is_some() && self.process == other.process,
        }
    }
}

/// Who it is, in words for a person.
impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)?;
        if let Some(id) = &self.session_id {
            write!(f, " session {id}")?;
        }
        match &self.process {
            Some(process) => write!(f, " (process {})", process.pid),
            None => Ok(()),
        }
    }
}

/// The hold; it ends with this value.
#[derive(Debug)]
pub struct ConsumerLock {
    _file: File,
    told: PathBuf,
}

impl Drop for ConsumerLock {
    fn drop(&mut self) {
        // So that nobody reads an old holder's name. After a kill it stays, and is known by its
        // process being gone.
        let _ = fs::remove_file(&self.told);
    }
}

/// The answer to a claim.
#[derive(Debug)]
pub enum Claim {
    /// This process holds it now.
    Mine(ConsumerLock),
    /// Another process of the same session holds it: act, the session is the consumer.
    Shared,
    /// Somebody else acts. `None`: it does not say who.
    Held(Option<Holder>),
}

impl Claim {
    /// Whether this process may act.
    #[must_use]
    pub fn may_act(&self) -> bool {
        !matches!(self, Claim::Held(_))
    }
}

/// Why it could not be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The lock could not be used.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The holder's name could not be written.
    #[error(transparent)]
    File(#[from] KeyFileError),
}

/// Claims the consumption of a room for an identity. Never waits.
///
/// # Errors
/// See [`ConsumerError`].
pub fn claim(
    cx: &Context,
    base: &Path,
    identity: &str,
    room: &str,
    me: &Holder,
) -> Result<Claim, ConsumerError> {
    let name = digest(&[identity.as_bytes(), room.as_bytes()]);
    let dir = base.join("consumers");
    let path = dir.join(format!("{name}.lock"));
    let told = dir.join(format!("{name}.json"));
    let taken = lock::try_exclusive(&path).map_err(|source| ConsumerError::Lock {
        path: path.clone(),
        source,
    })?;
    if let Some(file) = taken {
        let text = serde_json::to_vec(me).unwrap_or_default();
        keyfile::replace(&told, &text)?;
        return Ok(Claim::Mine(ConsumerLock { _file: file, told }));
    }
    let holder = holder(cx, &told);
    Ok(match holder {
        Some(holder) if holder.same_session(me) => Claim::Shared,
        other => Claim::Held(other),
    })
}

/// Who says to hold it; nobody when that process is gone: then somebody else just took it.
fn holder(cx: &Context, told: &Path) -> Option<Holder> {
    let bytes = keyfile::read(told).ok()??;
    let holder: Holder = serde_json::from_slice(&bytes).ok()?;
    let gone = |process: &Proc| cx.processes().alive(process) == Alive::No;
    (!holder.process.as_ref().is_some_and(gone)).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    const ID: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";

    fn holder_at(world: &World, pid: u32, host: &str, session: Option<&str>) -> Holder {
        Holder::this(&world.context_of(pid, []), host, session)
    }

    fn claim_in(world: &World, room: &str, me: &Holder) -> Claim {
        claim(&world.context([]), world.base(), ID, room, me).unwrap()
    }

    #[test]
    fn one_session_holds_it_and_its_processes_share_it() {
        let world = World::new();
        world.spawn(10, 1);
        world.spawn(11, 1);
        world.spawn(20, 1);
        let server = holder_at(&world, 10, "claude-code", Some("s"));
        let hook = holder_at(&world, 11, "claude-code", Some("s"));
        let other = holder_at(&world, 20, "claude-code", Some("t"));
        let held = claim_in(&world, "team", &server);
        assert!(matches!(held, Claim::Mine(_)));
        assert!(matches!(claim_in(&world, "team", &hook), Claim::Shared));
        match claim_in(&world, "team", &other) {
            Claim::Held(Some(who)) => {
                assert_eq!(who, server);
                assert_eq!(who.to_string(), "claude-code session s (process 10)");
            }
            claim => panic!("{claim:?}"),
        }
        assert!(claim_in(&world, "other-room", &other).may_act());
        drop(held);
        assert!(matches!(claim_in(&world, "team", &other), Claim::Mine(_)));
    }

    #[test]
    fn without_a_session_only_the_process_itself_shares() {
        let world = World::new();
        world.spawn(10, 1);
        world.spawn(11, 1);
        let worker = holder_at(&world, 10, "worker", None);
        let _held = claim_in(&world, "team", &worker);
        assert!(matches!(claim_in(&world, "team", &worker), Claim::Shared));
        let second = holder_at(&world, 11, "worker", None);
        assert!(!claim_in(&world, "team", &second).may_act());
    }

    #[test]
    fn a_holder_that_was_killed_is_not_named() {
        let world = World::new();
        world.spawn(10, 1);
        let dead = holder_at(&world, 10, "claude-code", Some("s"));
        let held = claim_in(&world, "team", &dead);
        world.end(10);
        // Somebody holds the lock, and the name that is written belongs to nobody any more.
        let same = Holder {
            process: None,
            ..dead.clone()
        };
        assert!(matches!(claim_in(&world, "team", &same), Claim::Held(None)));
        drop(held);
    }
}
