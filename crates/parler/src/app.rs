//! What every command starts from: the flags that all have, the output, and who this agent is.

use std::path::PathBuf;
use std::time::Duration;

use parler_connector::config::{Config, ConfigError, Effective, Flags, Minted, effective};
use parler_connector::context::Context;
use parler_connector::home::{self, Ask, HomeError, Identity, Kind as Program};
use parler_connector::render::Me;
use parler_connector::session;
use parler_identity::keyfile;

use crate::error::{CliError, CliResult, Kind};
use crate::live::Live;
use crate::output::{self, Out};

/// How long a command that waits for nothing may take in all.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(28);

/// The flags that every command has.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Globals {
    /// Print JSON, one object a line, instead of words
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Be the agent of that name: selects it, makes it when it is new, and binds this terminal to it
    #[arg(
        long = "as",
        global = true,
        help_heading = "Global options",
        value_name = "NAME"
    )]
    pub as_name: Option<String>,
    /// Use that hub [default: PARLER_HUB, else the configured one, else the local hub]
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "URL"
    )]
    pub hub: Option<String>,
    /// Trust the certificate authorities in that PEM file too [default: PARLER_CA, else the configured one]
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "FILE"
    )]
    pub ca: Option<String>,
}

/// One run of the program.
pub struct App {
    /// Environment, working directory, processes.
    pub cx: Context,
    /// Flags.
    pub globals: Globals,
    /// Standard output.
    pub out: Out,
    /// Nobody reads remarks on standard error: a hook.
    pub quiet: bool,
}

/// The agent that this run is.
pub struct Agent {
    /// Its home, and why that one.
    pub identity: Identity,
    /// Its key and settings.
    pub config: Config,
    /// What holds for this run.
    pub effective: Effective,
    /// Whether it was made just now.
    pub minted: Minted,
    /// What the MCP server of the same identity runs with, where there is one.
    pub live: Option<Live>,
}

impl App {
    /// Captures this process.
    pub fn new(globals: Globals, quiet: bool) -> App {
        let out = Out::for_stdout(globals.json);
        App {
            cx: Context::from_process(),
            globals,
            out,
            quiet,
        }
    }

    /// The identity's folder, and the reason for it.
    ///
    /// # Errors
    /// No home, or a name that cannot be.
    pub fn identity(&self, program: Program) -> CliResult<Identity> {
        let ask = Ask::new(program).named(self.globals.as_name.as_deref());
        let identity = home::resolve(&self.cx, &ask)?;
        if let Some(note) = &identity.note {
            output::note(&format!("note: {note}"));
        }
        Ok(identity)
    }

    /// The agent that a command acts as; makes it at the first use. A role that is given and new
    /// is kept.
    ///
    /// # Errors
    /// No home, a damaged file, a name that cannot be.
    pub fn agent(&self, role: Option<&str>) -> CliResult<Agent> {
        self.agent_of(self.identity(Program::Shell)?, role)
    }

    /// As [`App::agent`], for an identity that was chosen before.
    ///
    /// # Errors
    /// A damaged file, a name that cannot be.
    pub fn agent_of(&self, identity: Identity, role: Option<&str>) -> CliResult<Agent> {
        let (mut config, minted) = Config::open(&self.cx, &identity)?;
        if let Some(role) = role.filter(|role| config.role.as_deref() != Some(role)) {
            config = Config::update(&identity.home, |config| config.role = Some(role.to_owned()))?;
        }
        let live = Live::read(&identity.home);
        let flags = self.flags(live.as_ref(), &config, role);
        let effective = effective(&config, &self.cx, &identity, &flags)?;
        if live.is_none() && !self.quiet {
            effective
                .changed
                .iter()
                .for_each(|line| output::note(&format!("note: {line}")));
        }
        Ok(Agent {
            identity,
            config,
            effective,
            minted,
            live,
        })
    }

    /// What the command line says, completed by what the identity's MCP server was told: a shell
    /// command of the same session is the same agent on the same hub.
    fn flags(&self, live: Option<&Live>, config: &Config, role: Option<&str>) -> Flags {
        let told = |variable: &str, value: fn(&Live) -> Option<&String>| {
            live.filter(|_| self.cx.var(variable).is_none())
                .and_then(value)
                .cloned()
        };
        let same = live.is_some_and(|live| live.is_unchanged(config));
        let named = self.globals.as_name.is_some();
        Flags {
            hub: (self.globals.hub.clone())
                .or_else(|| told("PARLER_HUB", |live| live.hub.as_ref())),
            name: told("PARLER_NAME", |live| live.name.as_ref()).filter(|_| same && !named),
            role: (role.map(str::to_owned))
                .or_else(|| told("PARLER_ROLE", |live| live.role.as_ref()).filter(|_| same)),
            ca: (self.globals.ca.clone()).or_else(|| told("PARLER_CA", |live| live.ca.as_ref())),
        }
    }
}

impl Agent {
    /// This agent as one who reads.
    pub fn me(&self) -> Me<'_> {
        Me {
            id: self.config.id.as_str(),
            name: &self.effective.name,
            role: self.effective.role.as_deref(),
        }
    }

    /// The room that commands mean when they name none.
    pub fn active(&self) -> Option<String> {
        session::active_session(&self.identity.home)
    }

    /// The room that was named, else the active one.
    ///
    /// # Errors
    /// When there is neither.
    pub fn room(&self, named: Option<&str>) -> CliResult<String> {
        named
            .map(str::to_owned)
            .or_else(|| self.active())
            .ok_or_else(|| {
                CliError::usage("no room is named and no session is active")
                    .hint("name one with --room, or join one: parler session join KEY")
            })
    }

    /// Makes a room on this agent's own hub the active one, or none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_active(&self, room: Option<&str>) -> CliResult {
        session::set_active_session(&self.identity.home, room)
            .map_err(|e| CliError::new(Kind::Config, e.to_string()))?;
        self.set_active_hub(None)
    }

    /// The hub where the active session lives, when a key named it and it is not the agent's own.
    pub fn active_hub(&self) -> Option<String> {
        let bytes = keyfile::read(&self.active_hub_file()).ok()??;
        let url = String::from_utf8(bytes).ok()?.trim().to_owned();
        (!url.is_empty()).then_some(url)
    }

    /// Says where the active session lives.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_active_hub(&self, url: Option<&str>) -> CliResult {
        let path = self.active_hub_file();
        match url {
            Some(url) => keyfile::replace(&path, format!("{url}\n").as_bytes())
                .map_err(|e| CliError::new(Kind::Config, e.to_string())),
            None if path.exists() => Ok(std::fs::remove_file(path)?),
            None => Ok(()),
        }
    }

    fn active_hub_file(&self) -> PathBuf {
        self.identity.home.join("active_hub")
    }
}

impl From<HomeError> for CliError {
    fn from(error: HomeError) -> CliError {
        let kind = match &error {
            HomeError::Name(_) => Kind::Usage,
            _ => Kind::Config,
        };
        CliError::new(kind, error.to_string())
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> CliError {
        let kind = match &error {
            ConfigError::Name { .. } => Kind::Usage,
            _ => Kind::Config,
        };
        CliError::new(kind, error.to_string())
    }
}
