//! `parler connect HOST`: sets an agent host up, or takes the set-up out again.

use std::path::{Path, PathBuf};

use parler_connector::config::new_name;
use parler_connector::home::base_home;
use serde_json::json;

use crate::app::App;
use crate::error::{CliError, CliResult, Kind};
use crate::hosts::claude_code::configure::{self, Outcome, Wanted};
use crate::hosts::claude_code::detect::{Files, HOST};
use crate::output::human::line;

/// The variables that the MCP server gets, in the order in which they are written.
const ENV: [&str; 5] = [
    "PARLER_HUB",
    "PARLER_CA",
    "PARLER_NAME",
    "PARLER_ROLE",
    "PARLER_JOIN_SECRET",
];

/// Set up an agent host: its MCP server, permission and hooks.
///
/// The host's files keep their order, comments and mode; running it twice changes nothing, and
/// --remove gives the original bytes back. With --hub the host's agents use that hub, else the
/// local one.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler connect claude-code\n  parler connect claude-code --hub wss://hub.example --name reviewer\n  parler connect claude-code --remove"
)]
pub struct Args {
    /// The host
    #[arg(value_parser = [HOST], default_value = HOST)]
    pub host: String,
    /// Display name of the host's agents [default: a generated one each]
    #[arg(long)]
    pub name: Option<String>,
    /// Role of the host's agents
    #[arg(long)]
    pub role: Option<String>,
    /// Only the MCP server: no hooks
    #[arg(long)]
    pub no_hooks: bool,
    /// Take everything out again
    #[arg(long, conflicts_with_all = ["name", "role", "no_hooks", "print"])]
    pub remove: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    pub print: bool,
}

/// Does it.
pub fn run(app: &App, args: Args) -> CliResult {
    let home = app.cx.user_home().ok_or_else(|| {
        CliError::new(
            Kind::Config,
            "HOME is not set, so the host's files can't be found",
        )
        .hint("set HOME to your home folder")
    })?;
    let files = Files::of_user(&home, app.cx.var("CLAUDE_CONFIG_DIR"));
    let base = base_home(&app.cx)?;
    if args.remove {
        return remove(app, &files, &base);
    }
    let wanted = wanted(app, &args, &files)?;
    if args.print {
        return print(app, &wanted);
    }
    let done = configure::connect(&files, &wanted, &base)?;
    report(app, &files, &wanted, &done)
}

/// What to write: flags, else the environment, else what the host has already.
fn wanted(app: &App, args: &Args, files: &Files) -> CliResult<Wanted> {
    let name = match &args.name {
        Some(name) => Some(new_name(name).map_err(|e| CliError::usage(format!("--name: {e}")))?),
        None => None,
    };
    let current = configure::current_env(files);
    let value = |variable: &str| {
        let flag = match variable {
            "PARLER_HUB" => app.globals.hub.clone(),
            "PARLER_CA" => {
                let file = app.globals.ca.as_deref().map(|file| app.cx.path(file));
                file.map(|file| file.display().to_string())
            }
            "PARLER_NAME" => name.clone(),
            "PARLER_ROLE" => args.role.clone(),
            _ => None,
        };
        // Who this shell is says nothing about the host's agents; which hub it uses does.
        let shared = matches!(variable, "PARLER_HUB" | "PARLER_CA" | "PARLER_JOIN_SECRET");
        flag.or_else(|| app.cx.var(variable).filter(|_| shared).map(str::to_owned))
            .or_else(|| {
                current
                    .iter()
                    .find(|(name, _)| name == variable)
                    .map(|(_, v)| v.clone())
            })
    };
    let mut env: Vec<(String, String)> = ENV
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value(name)?)))
        .collect();
    // What the user wrote there by hand stays.
    env.extend(
        current
            .iter()
            .filter(|(name, _)| !ENV.contains(&name.as_str()))
            .cloned(),
    );
    Ok(Wanted {
        binary: std::env::current_exe()?,
        env,
        hooks: !args.no_hooks,
    })
}

fn print(app: &App, wanted: &Wanted) -> CliResult {
    let snippets = configure::snippets(wanted);
    let text: Vec<String> = snippets
        .iter()
        .map(|(file, text)| format!("# {file}\n{text}"))
        .collect();
    let list: Vec<_> = snippets
        .iter()
        .map(|(file, text)| json!({ "label": file, "text": text }))
        .collect();
    app.out.both(
        &text.join("\n\n"),
        &json!({
            "binary": wanted.binary.display().to_string(), "snippets": list,
            "results": [{ "id": HOST, "name": "Claude Code", "status": "printed" }],
        }),
    )
}

fn report(app: &App, files: &Files, wanted: &Wanted, done: &[(PathBuf, Outcome)]) -> CliResult {
    let hub = wanted
        .env
        .iter()
        .find(|(name, _)| name == "PARLER_HUB")
        .map(|(_, url)| url.as_str());
    let changed = done.iter().any(|(_, outcome)| *outcome == Outcome::Written);
    let mut lines = vec![match changed {
        true => "Claude Code is connected.".to_owned(),
        false => "Claude Code was connected already; nothing was changed.".to_owned(),
    }];
    for (path, outcome) in done {
        let word = if *outcome == Outcome::Written {
            "edited"
        } else {
            "as it was"
        };
        lines.push(format!("  {}: {word}", path.display()));
    }
    lines.push(format!(
        "  hub: {}",
        hub.map_or("the local one, started on demand".into(), line)
    ));
    if !files.installed(app.cx.var("PATH").unwrap_or_default()) {
        lines.push(
            "  Claude Code itself was not found; it will find this when it is installed.".into(),
        );
    }
    if changed {
        lines.push(
            "Restart its running sessions, then tell it: open a Parler session about …".into(),
        );
    }
    app.out.both(&lines.join("\n"), &json!({
        "hub": hub, "mode": if hub.is_some() { "explicit" } else { "local" },
        "binary": wanted.binary.display().to_string(),
        "results": [{
            "id": HOST, "name": "Claude Code", "status": "wired", "restart": changed, "hub": hub,
            "files": file_list(done), "hooks": wanted.hooks,
        }],
    }))
}

fn remove(app: &App, files: &Files, base: &Path) -> CliResult {
    let done = configure::remove(files, base)?;
    let changed = done.iter().any(|(_, outcome)| *outcome == Outcome::Written);
    let text = match changed {
        true => "Claude Code is disconnected; its files are as they were.",
        false => "Claude Code was not connected; nothing was changed.",
    };
    app.out.both(
        text,
        &json!({ "action": "remove", "results": [{
            "id": HOST, "name": "Claude Code", "files": file_list(&done),
            "status": if changed { "removed" } else { "not-configured" },
        }]}),
    )
}

fn file_list(done: &[(PathBuf, Outcome)]) -> Vec<serde_json::Value> {
    done.iter()
        .map(|(path, outcome)| {
            json!({ "path": path.display().to_string(), "changed": *outcome == Outcome::Written })
        })
        .collect()
}
