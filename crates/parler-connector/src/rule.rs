//! By which rule an identity was chosen, and how that is said to a person.

use std::fmt;
use std::path::PathBuf;

/// Why this home and no other; its `Display` says it in words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// `--as` named it.
    As {
        /// The name.
        name: String,
        /// This terminal is bound to it from now on.
        bound: bool,
    },
    /// `PARLER_HOME` named it.
    ParlerHome,
    /// The terminal is bound to it.
    Terminal {
        /// The name.
        name: String,
    },
    /// `PARLER_AGENT_SESSION` named it.
    AgentSession {
        /// Its value.
        value: String,
    },
    /// One session of a host in a workspace.
    Slot {
        /// The host.
        host: String,
        /// The workspace.
        workspace: PathBuf,
        /// Which of the sessions there.
        slot: u32,
        /// The host's id of the session.
        session: Option<String>,
    },
    /// A home that an older client made for this workspace.
    Adopted {
        /// The host.
        host: String,
        /// The workspace.
        workspace: PathBuf,
    },
    /// The identity that the MCP server of this session has.
    Server {
        /// The host.
        host: String,
    },
    /// Slots would apply, and `PARLER_SHARED_IDENTITY` or a missing directory keeps them off.
    Shared,
    /// Nothing else applies.
    Base,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::As { name, bound: true } => {
                write!(f, "--as {name}; this terminal is bound to it")
            }
            Rule::As { name, bound: false } => write!(f, "--as {name}"),
            Rule::ParlerHome => f.write_str("PARLER_HOME"),
            Rule::Terminal { name } => {
                write!(f, "this terminal is bound to '{name}' by an earlier --as")
            }
            Rule::AgentSession { value } => write!(f, "PARLER_AGENT_SESSION={value}"),
            Rule::Slot {
                host,
                workspace,
                slot,
                session,
            } => {
                write!(f, "{host} in {}, slot {slot}", workspace.display())?;
                match session {
                    Some(id) => write!(f, ", session {id}"),
                    None => Ok(()),
                }
            }
            Rule::Adopted { host, workspace } => write!(
                f,
                "{host} in {}, a home that was there before",
                workspace.display()
            ),
            Rule::Server { host } => write!(f, "the identity of this {host} session's MCP server"),
            Rule::Shared => f.write_str("one shared identity in every workspace"),
            Rule::Base => f.write_str("the default identity of this user"),
        }
    }
}
