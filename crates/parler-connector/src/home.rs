//! Which identity a command, a hook or an MCP server is.
//!
//! An identity is a folder, its *home*. [`resolve`] chooses it, and says by which [`Rule`]:
//!
//! 1. `--as NAME`: a named identity below the base home; in a plain shell the terminal is bound to
//!    it from then on.
//! 2. In an agent host (and for every MCP server and hook) a slot: one identity a live session,
//!    below `ws/` of `PARLER_HOME` or else of the base home; `PARLER_AGENT_SESSION` names one for
//!    ever; `PARLER_SHARED_IDENTITY` switches slots off.
//! 3. In a plain shell `PARLER_HOME`, else the name that the terminal is bound to, else the base
//!    home itself.
//!
//! The *base home* is `PARLER_BASE`, else `.parler` in the user's home: what all agents of one
//! user share (the local hub, the registry of sessions, what was already woken for) lives there,
//! whatever `PARLER_HOME` says. This file reads no key and mints none: see [`crate::config`].

use std::io;
use std::path::{Path, PathBuf};

use parler_identity::KeyFileError;
use parler_protocol::names::token;

use crate::config::{self, NameError};
pub use crate::context::{Context, HostSession};
use crate::naming::{digest, scoped_folder};
use crate::registry::{Entry, Registry};
pub use crate::rule::Rule;
pub use crate::slots::SlotLock;
use crate::slots::{self, Found, How, Wanted};
use crate::terminal;

/// What a program is, as far as its identity depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command typed by a person, or run by an agent in its shell; workers too, so that one is
    /// who joined before it in the same shell.
    Shell,
    /// A command that sets things up (`hub`, `connect`, `init`, `doctor`): never a slot.
    Setup,
    /// The MCP server of a session: always a slot, and the one that holds it.
    Mcp,
    /// A hook of a host: always a slot, only looked up.
    Hook,
}

/// What is asked of [`resolve`]. Everything but the kind is optional and wins over the environment.
#[derive(Clone, Debug)]
pub struct Ask {
    kind: Kind,
    as_name: Option<String>,
    host: Option<String>,
    session_id: Option<String>,
    cwd: Option<PathBuf>,
}

impl Ask {
    /// Asks for a program of that kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            as_name: None,
            host: None,
            session_id: None,
            cwd: None,
        }
    }

    /// The value of `--as`.
    #[must_use]
    pub fn named(mut self, name: Option<&str>) -> Self {
        self.as_name = name.map(str::to_owned);
        self
    }

    /// The host by its short name, as the MCP handshake or a hook's payload told it (see
    /// [`crate::context::host_by_client_name`]).
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// The host's id of the session, as a hook's payload or a call told it.
    #[must_use]
    pub fn session_id(mut self, id: Option<&str>) -> Self {
        self.session_id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        self
    }

    /// The directory that the host says it works in.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }
}

/// The identity that a program has: where it lives and why. Holds the slot, where there is one.
#[derive(Debug)]
pub struct Identity {
    /// The identity's folder: `config.json`, `active_session`. May not exist yet.
    pub home: PathBuf,
    /// The base home.
    pub base: PathBuf,
    /// Why this one.
    pub rule: Rule,
    /// The display name that a new identity in that home gets: that of `--as`.
    pub name: Option<String>,
    /// The home whose configured hub this identity inherits as long as it names none itself.
    pub parent: Option<PathBuf>,
    /// The host and the session, in an agent host.
    pub session: Option<HostSession>,
    /// The workspace, in an agent host.
    pub workspace: Option<PathBuf>,
    /// The hold on the slot; an MCP server keeps it for life.
    pub lock: Option<SlotLock>,
    /// The session's entry in the registry, of an MCP server. To be retired at its end.
    pub entry: Option<Entry>,
    /// Something that the user should be told.
    pub note: Option<String>,
}

/// Why no identity could be chosen. The text names the thing and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// There is no place for the base home.
    #[error(
        "there is no place for Parler's files: HOME is not set; set PARLER_BASE to a folder of your own, for example PARLER_BASE=/var/lib/parler"
    )]
    NoHome,
    /// `--as` with a name that no agent may have.
    #[error("--as: {0}")]
    Name(#[from] NameError),
    /// A private file could not be read or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// A lock file could not be used.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process held the choice for too long.
    #[error("another process holds {} for too long; if none runs any more, try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// There are too many sessions.
    #[error("every slot of this workspace in {} is taken; end a session, or set PARLER_AGENT_SESSION to a name of its own", folder.display())]
    Full {
        /// The folder of the slots.
        folder: PathBuf,
    },
}

impl HomeError {
    pub(crate) fn lock(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| HomeError::Lock { path, source }
    }
}

/// The base home: `PARLER_BASE`, else `.parler` in the user's home. It may not exist yet.
///
/// # Errors
/// [`HomeError::NoHome`] when neither is known.
pub fn base_home(cx: &Context) -> Result<PathBuf, HomeError> {
    cx.path_var("PARLER_BASE")
        .or_else(|| Some(cx.user_home()?.join(".parler")))
        .ok_or(HomeError::NoHome)
}

/// The home of the named identity that `--as` selects.
#[must_use]
pub fn named_home(base: &Path, name: &str) -> PathBuf {
    let readable: String = token(name).chars().take(40).collect();
    let exact = digest(&[name.as_bytes()]);
    base.join("as").join(format!("{readable}-{}", &exact[..8]))
}

/// Chooses the identity.
///
/// Creates folders of slots and the binding of a terminal, nothing else. An MCP server gets its
/// slot's lock with it. Blocks for the time of a few small files; a second at most, should another
/// process be choosing at the same moment.
///
/// # Errors
/// See [`HomeError`].
pub fn resolve(cx: &Context, ask: &Ask) -> Result<Identity, HomeError> {
    let base = base_home(cx)?;
    let cx = &match &ask.cwd {
        Some(cwd) => cx.clone().with_cwd(cwd.clone()),
        None => cx.clone(),
    };
    let mut identity = choose(cx, ask, base)?;
    if ask.kind == Kind::Mcp && identity.entry.is_none() {
        register(cx, &mut identity)?;
    }
    Ok(identity)
}

/// Notes the MCP server of an identity that is no slot, so that its session finds it too.
fn register(cx: &Context, identity: &mut Identity) -> Result<(), HomeError> {
    let session = identity.session.clone().unwrap_or_else(unknown_session);
    let workspace = identity.workspace.clone().unwrap_or_default();
    let registry = Registry::open(cx, &identity.base);
    let wanted = Wanted {
        cx,
        registry: &registry,
        parent: &identity.base,
        pinned: false,
        host: &session.host,
        session_id: session.session_id.as_deref(),
        workspace: &workspace,
    };
    let entry = wanted.entry(&identity.home, None, true);
    registry.put(&entry)?;
    identity.entry = Some(entry);
    Ok(())
}

fn unknown_session() -> HostSession {
    HostSession {
        host: "agent".to_owned(),
        session_id: None,
    }
}

fn choose(cx: &Context, ask: &Ask, base: PathBuf) -> Result<Identity, HomeError> {
    let session = session_of(cx, ask);
    if let Some(name) = &ask.as_name {
        return by_name(cx, base, ask, session, name);
    }
    let scoped = match ask.kind {
        Kind::Mcp | Kind::Hook => true,
        Kind::Shell => session.is_some(),
        Kind::Setup => false,
    };
    if !scoped {
        return Ok(plain(cx, base));
    }
    let parent = cx.path_var("PARLER_HOME");
    let workspace = cx.workspace();
    match workspace {
        Some(workspace) if !cx.truthy("PARLER_SHARED_IDENTITY") => {
            scope(cx, ask, base, parent, session, workspace)
        }
        _ => Ok(Identity {
            home: parent.unwrap_or_else(|| base.clone()),
            session,
            ..unscoped(base, Rule::Shared)
        }),
    }
}

/// What is known of the host: what was asked wins over the environment, and another host's session
/// id in the environment says nothing.
fn session_of(cx: &Context, ask: &Ask) -> Option<HostSession> {
    let around = cx.host();
    let host = match (&ask.host, &around) {
        (Some(host), _) => host.clone(),
        (None, Some(around)) => around.host.clone(),
        (None, None) if ask.session_id.is_some() => "agent".to_owned(),
        (None, None) => return None,
    };
    let inherited = around
        .filter(|around| around.host == host)
        .and_then(|around| around.session_id);
    Some(HostSession {
        host,
        session_id: ask.session_id.clone().or(inherited),
    })
}

fn unscoped(base: PathBuf, rule: Rule) -> Identity {
    Identity {
        home: base.clone(),
        base,
        rule,
        name: None,
        parent: None,
        session: None,
        workspace: None,
        lock: None,
        entry: None,
        note: None,
    }
}

fn by_name(
    cx: &Context,
    base: PathBuf,
    ask: &Ask,
    session: Option<HostSession>,
    name: &str,
) -> Result<Identity, HomeError> {
    let name = config::new_name(name)?;
    let by_a_person = ask.kind == Kind::Shell && session.is_none();
    let bound = by_a_person && terminal::bind(cx, &base, &name)?;
    Ok(Identity {
        home: named_home(&base, &name),
        parent: Some(base.clone()),
        name: Some(name.clone()),
        session,
        workspace: cx.workspace(),
        ..unscoped(base, Rule::As { name, bound })
    })
}

fn plain(cx: &Context, base: PathBuf) -> Identity {
    if let Some(home) = cx.path_var("PARLER_HOME") {
        return Identity {
            home,
            ..unscoped(base, Rule::ParlerHome)
        };
    }
    match terminal::bound(cx, &base) {
        Some(name) => Identity {
            home: named_home(&base, &name),
            parent: Some(base.clone()),
            name: Some(name.clone()),
            ..unscoped(base, Rule::Terminal { name })
        },
        None => unscoped(base, Rule::Base),
    }
}

fn scope(
    cx: &Context,
    ask: &Ask,
    base: PathBuf,
    named_parent: Option<PathBuf>,
    session: Option<HostSession>,
    workspace: PathBuf,
) -> Result<Identity, HomeError> {
    let pinned = named_parent.is_some();
    let parent = named_parent.unwrap_or_else(|| base.clone());
    let session = session.unwrap_or_else(unknown_session);
    if let Some(value) = cx.var("PARLER_AGENT_SESSION") {
        let folder = scoped_folder(&workspace, Some(value));
        let value = value.to_owned();
        return Ok(Identity {
            home: parent.join("ws").join(folder),
            parent: Some(parent),
            session: Some(session),
            workspace: Some(workspace),
            ..unscoped(base, Rule::AgentSession { value })
        });
    }
    let registry = Registry::open(cx, &base);
    let wanted = Wanted {
        cx,
        registry: &registry,
        parent: &parent,
        pinned,
        host: &session.host,
        session_id: session.session_id.as_deref(),
        workspace: &workspace,
    };
    let found = match ask.kind {
        Kind::Mcp => slots::take(wanted)?,
        _ => slots::find(wanted)?,
    };
    Ok(identity(base, session, workspace, found))
}

fn identity(base: PathBuf, session: HostSession, workspace: PathBuf, found: Found) -> Identity {
    let host = session.host.clone();
    let rule = match found.how {
        How::Slot(slot) => Rule::Slot {
            host,
            workspace: workspace.clone(),
            slot,
            session: session.session_id.clone(),
        },
        How::Adopted => Rule::Adopted {
            host,
            workspace: workspace.clone(),
        },
        How::Server => Rule::Server { host },
    };
    // The folder above `ws/` or `as/`; a home that lies in neither inherits nothing.
    let within = |folder: &Path| folder.ends_with("ws") || folder.ends_with("as");
    let folder = found.home.parent().filter(|folder| within(folder));
    Identity {
        parent: folder.and_then(Path::parent).map(Path::to_owned),
        home: found.home,
        session: Some(session),
        workspace: Some(workspace),
        lock: found.lock,
        entry: found.entry,
        note: found.note,
        ..unscoped(base, rule)
    }
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
