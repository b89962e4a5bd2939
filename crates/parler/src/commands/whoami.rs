//! `parler whoami`: identity, hub, and the reasons for both. Dials nothing and starts nothing.

use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::local_hub::{LocalHub, State};
use crate::output::human::{line, place};

/// Say who you are here, on which hub, and why.
#[derive(clap::Args)]
pub struct Args {
    /// Also set this role
    #[arg(long)]
    pub role: Option<String>,
}

/// Prints it.
pub fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(args.role.as_deref())?;
    let hub = connect_hub::place(app, &agent, None);
    let local = LocalHub::of(&agent.identity.base);
    let state = match local.state()? {
        State::Running(holder) => format!("running (process {})", holder.pid),
        State::Changing => "starting or stopping".to_owned(),
        State::Stopped => "not running; the next command that needs it starts it".to_owned(),
    };
    let active = agent.active();
    let role = agent.effective.role.as_deref();
    let home = agent.identity.home.display().to_string();
    let rule = agent.identity.rule.to_string();
    let url = hub
        .url
        .as_deref()
        .unwrap_or("parler://127.0.0.1 (its port is chosen at the first start)");
    let mut lines = vec![
        format!("name:     {}", line(&agent.effective.name)),
        format!("role:     {}", role.map_or("none".to_owned(), line)),
        format!("id:       {}", agent.config.id),
        format!("home:     {home}"),
        format!("because:  {}", line(&rule)),
        format!("hub:      {} ({})", line(url), line(&hub.why)),
    ];
    if hub.local {
        lines.push(format!("local hub: {state}"));
    }
    lines.push(format!(
        "session:  {}",
        active.as_deref().map_or("none".to_owned(), place)
    ));
    app.out.both(
        &lines.join("\n"),
        &json!({
            "id": agent.config.id, "name": agent.effective.name, "role": role,
            "home": home, "base": agent.identity.base.display().to_string(), "rule": rule,
            "hub": hub.url, "hubBecause": hub.why, "hubIsLocal": hub.local,
            "localHub": hub.local.then_some(state), "session": active,
        }),
    )
}
