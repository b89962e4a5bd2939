//! `parler init`: an identity with chosen settings.

use parler_connector::config::{Config, new_name, path_in};
use parler_connector::home::Kind as Program;
use parler_connector::tls::Authorities;
use parler_protocol::clean;
use serde_json::json;

use crate::app::App;
use crate::error::{CliError, CliResult, Kind};
use crate::local_hub::LocalHub;
use crate::output::human::line;

/// Make this identity, or set its hub, name, role and certificate authorities.
///
/// Without it everything works too: an identity is made at the first use, and the hub is the local
/// one.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler init --hub wss://hub.example --name planner --role architect"
)]
pub struct Args {
    /// Display name [default: a generated one]
    #[arg(long)]
    pub name: Option<String>,
    /// Role
    #[arg(long)]
    pub role: Option<String>,
    /// Make a new key; the old config.json is kept under another name
    #[arg(long)]
    pub force: bool,
}

/// Writes the configuration.
pub fn run(app: &App, args: Args) -> CliResult {
    let program = if app.globals.as_name.is_some() {
        Program::Shell
    } else {
        Program::Setup
    };
    let identity = app.identity(program)?;
    let path = path_in(&identity.home);
    let name = match args.name.as_deref().or(identity.name.as_deref()) {
        Some(name) => Some(new_name(name).map_err(|e| CliError::usage(format!("--name: {e}")))?),
        None => None,
    };
    let kept = if args.force { set_aside(&path)? } else { None };
    let (before, _) = Config::open(&app.cx, &identity)?;
    let hub = app
        .globals
        .hub
        .as_deref()
        .map(str::trim)
        .filter(|url| !url.is_empty());
    // The local hub is found without being named, also after its port changed hands.
    let hub = hub.filter(|url| !LocalHub::of(&identity.base).is_at(url));
    let ca = app.globals.ca.as_deref().map(|file| app.cx.path(file));
    if let Some(file) = &ca {
        Authorities::read(file).map_err(|e| CliError::usage(format!("--ca: {e}")))?;
    }
    let config = Config::update(&identity.home, |config| {
        if let Some(file) = &ca {
            config.ca = Some(file.display().to_string());
        }
        if let Some(name) = &name {
            config.name.clone_from(name);
        }
        if let Some(role) = &args.role {
            config.role = Some(clean::name(role)).filter(|role| !role.is_empty());
        }
        if let Some(hub) = hub {
            config.set_hub(hub, false);
        }
    })?;
    debug_assert_eq!(before.id, config.id);
    let mut lines = vec![
        format!("{} is {}", path.display(), line(&config.name)),
        format!("id:  {}", config.id),
        format!(
            "hub: {}",
            config
                .hub_url
                .as_deref()
                .map_or("the local one, started on demand".into(), line)
        ),
    ];
    if let Some(kept) = &kept {
        lines.push(format!("the old identity is in {kept}"));
    }
    app.out.both(
        &lines.join("\n"),
        &json!({
            "id": config.id, "name": config.name, "role": config.role, "hub": config.hub_url,
            "config": path.display().to_string(), "kept": kept,
        }),
    )
}

/// Renames an existing configuration: a key once written is never deleted.
fn set_aside(path: &std::path::Path) -> CliResult<Option<String>> {
    for n in 1..1000 {
        let old = path.with_file_name(format!("config.json.old{n}"));
        if old.exists() {
            continue;
        }
        return match std::fs::rename(path, &old) {
            Ok(()) => Ok(Some(old.display().to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(CliError::new(
                Kind::Config,
                format!("can't rename {}: {e}", path.display()),
            )),
        };
    }
    Err(CliError::new(
        Kind::Config,
        format!("too many old identities beside {}", path.display()),
    ))
}
