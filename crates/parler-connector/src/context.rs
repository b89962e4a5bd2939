//! What a process was started with: environment, working directory, place among the processes.
//!
//! Captured once, at the edge; everything behind it is a function of this value, so tests make
//! their own worlds. It reads the environment and changes nothing.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parler_protocol::names::token;

use crate::platform::{self, HOME_VARIABLES, Processes, Untold};

/// The variables by which an agent host shows itself, with the host that each names. The first
/// that is set wins.
const HOST_VARIABLES: &[(&str, &str)] = &[
    ("CODEX_THREAD_ID", "codex"),
    ("CODEX_WORKING_DIR", "codex"),
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
    ("CLAUDE_PROJECT_DIR", "claude-code"),
    ("OPENCODE", "opencode"),
    ("GEMINI_CLI", "gemini"),
    ("COPILOT_CLI", "copilot"),
    ("CONDUCTOR_WORKSPACE_PATH", "conductor"),
];

/// The variables that carry a host's session id, first one wins.
const SESSION_VARIABLES: &[(&str, &str)] = &[
    ("CODEX_THREAD_ID", "codex"),
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
];

/// Which agent host a process runs in, and which session of it, as far as it was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostSession {
    /// The host's short name: `claude-code`, `codex`, `opencode`, …
    pub host: String,
    /// The host's own id of the session.
    pub session_id: Option<String>,
}

/// Everything about the process that the local half looks at.
#[derive(Clone)]
pub struct Context {
    env: HashMap<String, OsString>,
    cwd: Option<PathBuf>,
    pid: u32,
    processes: Arc<dyn Processes>,
    now_ms: fn() -> i64,
}

/// Shows no environment: it holds secrets.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("cwd", &self.cwd)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

fn wall_clock_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

impl Context {
    /// Captures this process.
    #[must_use]
    pub fn from_process() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        Self {
            env,
            cwd: std::env::current_dir().ok(),
            pid: std::process::id(),
            processes: platform::system(),
            now_ms: wall_clock_ms,
        }
    }

    /// Makes a context of one's own: these variables and no others, that working directory, no
    /// knowledge of processes.
    #[must_use]
    pub fn new<K: Into<String>, V: Into<OsString>>(
        env: impl IntoIterator<Item = (K, V)>,
        cwd: impl Into<PathBuf>,
    ) -> Self {
        Self {
            env: env.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            cwd: Some(cwd.into()),
            pid: std::process::id(),
            processes: Arc::new(Untold),
            now_ms: wall_clock_ms,
        }
    }

    /// The same context as the process `pid` in that world of processes.
    #[must_use]
    pub fn with_processes(mut self, processes: Arc<dyn Processes>, pid: u32) -> Self {
        self.processes = processes;
        self.pid = pid;
        self
    }

    /// The same context with one variable set, or with an empty value unset.
    #[must_use]
    pub fn with_var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// The same context in another working directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// A variable that is set, not empty, and text.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env
            .get(name)
            .and_then(|value| value.to_str())
            .filter(|value| !value.is_empty())
    }

    /// Whether a switch is on: set and, trimmed and lower-cased, none of empty, `0`, `false`, `no`.
    #[must_use]
    pub fn truthy(&self, name: &str) -> bool {
        self.env.get(name).is_some_and(|value| {
            let text = value.to_string_lossy().trim().to_lowercase();
            !matches!(text.as_str(), "" | "0" | "false" | "no")
        })
    }

    /// A variable that names a folder: a leading `~` or `~/` means the user's home, a relative
    /// path starts at the working directory.
    #[must_use]
    pub fn path_var(&self, name: &str) -> Option<PathBuf> {
        let raw = self.env.get(name).filter(|value| !value.is_empty())?;
        Some(self.absolute(&self.expand(raw)))
    }

    /// The user's home folder.
    #[must_use]
    pub fn user_home(&self) -> Option<PathBuf> {
        HOME_VARIABLES
            .iter()
            .find_map(|name| self.env.get(*name).filter(|value| !value.is_empty()))
            .map(|home| self.absolute(Path::new(home)))
    }

    /// A path as a person writes it (`~` allowed), made absolute.
    #[must_use]
    pub fn path(&self, written: &str) -> PathBuf {
        self.absolute(&self.expand(OsStr::new(written)))
    }

    fn expand(&self, raw: &OsStr) -> PathBuf {
        let path = Path::new(raw);
        match (path.strip_prefix("~"), self.user_home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        match &self.cwd {
            Some(cwd) => cwd.join(path),
            None => path.to_owned(),
        }
    }

    /// The working directory; `None` when it was deleted under the process.
    #[must_use]
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// This process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The processes of the machine.
    #[must_use]
    pub fn processes(&self) -> &Arc<dyn Processes> {
        &self.processes
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    /// The agent host that this process runs in, by its environment; `None` in a plain shell.
    ///
    /// A session id is not taken from a conductor workspace, which outlives sessions.
    #[must_use]
    pub fn host(&self) -> Option<HostSession> {
        let (_, host) = HOST_VARIABLES
            .iter()
            .find(|(name, _)| self.var(name).is_some())?;
        let conducted = self.var("CONDUCTOR_WORKSPACE_PATH").is_some();
        let session_id = SESSION_VARIABLES
            .iter()
            .filter(|(_, of)| of == host && !conducted)
            .find_map(|(name, _)| self.var(name))
            .map(str::to_owned);
        Some(HostSession {
            host: (*host).to_owned(),
            session_id,
        })
    }

    /// The workspace that scopes an identity: the conductor's, else the working directory; resolved
    /// through links. `None` when there is no such directory.
    #[must_use]
    pub fn workspace(&self) -> Option<PathBuf> {
        let named = self.path_var("CONDUCTOR_WORKSPACE_PATH");
        let path = named.or_else(|| self.cwd.clone())?;
        path.canonicalize().ok().filter(|path| path.is_dir())
    }
}

/// The short name of a host by what it calls itself when it starts an MCP server.
#[must_use]
pub fn host_by_client_name(client: &str) -> String {
    let known = [
        ("claude-code", "claude-code"),
        ("claude-ai", "claude-desktop"),
        ("codex", "codex"),
        ("opencode", "opencode"),
        ("gemini", "gemini"),
        ("copilot", "copilot"),
        ("cursor", "cursor"),
        ("windsurf", "windsurf"),
        ("cline", "cline"),
        ("goose", "goose"),
        ("zed", "zed"),
        ("visual studio code", "vscode"),
        ("vscode", "vscode"),
    ];
    let lower = client.trim().to_lowercase();
    known
        .iter()
        .find(|(prefix, _)| lower.starts_with(prefix))
        .map_or_else(
            || token(&lower).chars().take(40).collect(),
            |(_, host)| (*host).to_owned(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx(env: &[(&str, &str)]) -> Context {
        Context::new(env.iter().copied(), "/work/here")
    }

    #[test]
    fn paths_are_expanded_and_made_absolute() {
        let cx = cx(&[
            ("HOME", "/home/me"),
            ("A", "~"),
            ("B", "~/x"),
            ("C", "~other/x"),
            ("D", "rel"),
            ("E", "/abs"),
            ("F", ""),
        ]);
        for (name, want) in [
            ("A", Some("/home/me")),
            ("B", Some("/home/me/x")),
            ("C", Some("/work/here/~other/x")),
            ("D", Some("/work/here/rel")),
            ("E", Some("/abs")),
            ("F", None),
            ("G", None),
        ] {
            assert_eq!(cx.path_var(name), want.map(PathBuf::from), "{name}");
        }
    }

    #[test]
    fn switches_are_read_as_people_write_them() {
        for (value, on) in [
            ("1", true),
            (" TRUE ", true),
            ("yes", true),
            ("", false),
            ("0", false),
            (" False", false),
            ("no", false),
        ] {
            assert_eq!(cx(&[("S", value)]).truthy("S"), on, "{value:?}");
        }
        assert!(!cx(&[]).truthy("S"));
    }

    #[test]
    fn a_host_shows_itself_by_its_variables() {
        let host = |env: &[(&str, &str)]| {
            cx(env)
                .host()
                .map(|h| (h.host, h.session_id.unwrap_or_default()))
        };
        let is = |host: &str, id: &str| Some((host.to_owned(), id.to_owned()));
        assert_eq!(host(&[]), None);
        assert_eq!(host(&[("CODEX_THREAD_ID", "")]), None);
        assert_eq!(host(&[("CODEX_THREAD_ID", "t")]), is("codex", "t"));
        assert_eq!(host(&[("CODEX_WORKING_DIR", "/w")]), is("codex", ""));
        assert_eq!(
            host(&[("CLAUDE_CODE_SESSION_ID", "s")]),
            is("claude-code", "s")
        );
        assert_eq!(host(&[("CLAUDE_PROJECT_DIR", "/w")]), is("claude-code", ""));
        assert_eq!(host(&[("OPENCODE", "1")]), is("opencode", ""));
        let conducted = [
            ("CLAUDE_CODE_SESSION_ID", "s"),
            ("CONDUCTOR_WORKSPACE_PATH", "/w"),
        ];
        assert_eq!(host(&conducted), is("claude-code", ""));
        assert_eq!(
            host(&[("CONDUCTOR_WORKSPACE_PATH", "/w")]),
            is("conductor", "")
        );
        let both = [("CLAUDE_CODE_SESSION_ID", "s"), ("CODEX_THREAD_ID", "t")];
        assert_eq!(host(&both), is("codex", "t"));
        // Codex without a thread id is not known by the id of another host around it.
        let around = [("CLAUDE_CODE_SESSION_ID", "s"), ("CODEX_WORKING_DIR", "/w")];
        assert_eq!(host(&around), is("codex", ""));
    }

    #[test]
    fn hosts_are_known_by_what_they_call_themselves() {
        for (client, host) in [
            ("claude-code", "claude-code"),
            ("codex-mcp-client", "codex"),
            ("gemini-cli-mcp-client", "gemini"),
            ("Visual Studio Code", "vscode"),
            ("Some/Thing", "some_thing"),
        ] {
            assert_eq!(host_by_client_name(client), host);
        }
    }

    #[test]
    fn the_environment_is_not_shown() {
        let shown = format!("{:?}", cx(&[("PARLER_JOIN_SECRET", "hidden")]));
        assert!(!shown.contains("hidden"));
    }
}
