//! `parler presence STATUS`.

use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::line;

/// Say how you are: idle, waiting or working.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler presence working --activity \"login page\"")]
pub struct Args {
    /// idle, waiting or working
    pub status: String,
    /// What you do; without it the former text is cleared
    #[arg(long)]
    pub activity: Option<String>,
}

/// Tells the hub.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    client
        .presence(&args.status, args.activity.as_deref(), None)
        .await?;
    client.close().await;
    let activity = args
        .activity
        .as_deref()
        .map(|what| format!(": {}", line(what)));
    let text = format!(
        "{} is {}{}",
        line(&agent.effective.name),
        line(&args.status),
        activity.unwrap_or_default()
    );
    app.out.both(
        &text,
        &json!({ "status": args.status, "activity": args.activity }),
    )
}
