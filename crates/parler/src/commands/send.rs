//! `parler send`.

use std::io::Read;

use parler_connector::Outgoing;
use parler_protocol::{Dispatch, Part, Target, TypedPart, limits};
use serde_json::json;

use super::target::TargetArgs;
use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult};
use crate::output::human::{line, place};

/// Say something in a room, or to an agent.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler send tests are green\n  git log -1 | parler send -\n  parler send --to webdev \"ready?\"\n  parler send --role reviewer \"review branch auth\""
)]
pub struct Args {
    /// The text; `-` reads it from standard input
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// As work for whoever serves that role; to the service of that name unless --service names
    /// another
    #[arg(long, conflicts_with_all = ["room", "to"])]
    pub role: Option<String>,
    /// Mention somebody by name or id (repeatable)
    #[arg(long = "mention", value_name = "WHO")]
    pub mentions: Vec<String>,
    /// Answer that message
    #[arg(long, value_name = "MESSAGE")]
    pub reply_to: Option<String>,
}

/// Sends it.
pub async fn run(app: &App, args: Args) -> CliResult {
    let text = text_of(&args.text, "send")?;
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let target = match (&args.role, &args.target.service) {
        (Some(role), None) => Target::Service {
            service: role.clone(),
        },
        _ => args.target.find(&agent, &client).await?,
    };
    let mut parts = vec![Part::text(text)];
    if let Some(role) = args.role {
        parts.push(Dispatch { role }.to_part());
    }
    let mut message = Outgoing::new(target, parts);
    message.mentions = (!args.mentions.is_empty()).then_some(args.mentions);
    message.reply_to = args.reply_to;
    let private = matches!(message.target, Target::Dm { .. });
    let sent = client.send(message).await?;
    client.close().await;
    let to = match (&args.target.to, private) {
        (Some(who), true) => format!("'{}' in {}", line(who), place(&sent.room)),
        _ => place(&sent.room),
    };
    app.out.both(
        &format!("sent [{}] to {to}", sent.seq),
        &json!({
            "id": sent.id, "seq": sent.seq, "room": sent.room,
        }),
    )
}

/// The words, or standard input for `-`.
pub fn text_of(words: &[String], verb: &str) -> CliResult<String> {
    let text = match words {
        [dash] if dash == "-" => {
            let most = limits::MAX_MESSAGE_BYTES as u64;
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .take(most + 1)
                .read_to_end(&mut bytes)?;
            if bytes.len() as u64 > most {
                return Err(CliError::usage(format!(
                    "standard input is longer than {most} bytes"
                )));
            }
            String::from_utf8(bytes)
                .map_err(|_| CliError::usage("standard input is not UTF-8 text"))?
        }
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(CliError::usage(format!("there is nothing to {verb}"))
            .hint(format!("parler {verb} TEXT")));
    }
    Ok(text)
}
