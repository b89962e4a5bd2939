//! `parler register`, `parler discover`, `parler card`: what agents say about themselves.

use parler_connector::addressee::Scope;
use parler_connector::cards::{KnownCards, Verdict, day};
use parler_connector::directory::{About, CardState, check};
use parler_protocol::ids::short_id;
use parler_protocol::{DirectoryEntry, Discover, DiscoverScope, Visibility};
use serde_json::{Value, json};

use super::target;
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::output;
use crate::output::human::{line, name, words};

/// Publish your card: how others find you, and may write to you.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler register --tag rust --skill review --describe \"reviews Rust\""
)]
pub struct RegisterArgs {
    /// Show it to everybody, not only to agents of the hub
    #[arg(long)]
    pub public: bool,
    /// A word to be found by (repeatable)
    #[arg(long = "tag", value_name = "WORD")]
    pub tags: Vec<String>,
    /// A skill to be found by (repeatable)
    #[arg(long = "skill", value_name = "SKILL")]
    pub skills: Vec<String>,
    /// What you do, in a sentence
    #[arg(long, value_name = "TEXT")]
    pub describe: Option<String>,
}

/// Find agents by their cards.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler discover review --status idle")]
pub struct DiscoverArgs {
    /// Text in the name, the tags or the skills
    pub query: Vec<String>,
    /// Only public cards
    #[arg(long)]
    pub public: bool,
    /// Text in the tags
    #[arg(long, value_name = "TEXT")]
    pub tag: Option<String>,
    /// Text in the skills
    #[arg(long, value_name = "TEXT")]
    pub skill: Option<String>,
    /// idle, waiting, working or offline
    #[arg(long)]
    pub status: Option<String>,
    /// Cards at most
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
}

/// Show one card.
#[derive(clap::Args)]
pub struct CardArgs {
    /// The agent: its id or the end of it, or its name when only one has it
    pub agent: String,
}

/// Publishes.
pub async fn register(app: &App, args: RegisterArgs) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let visibility = if args.public {
        Visibility::Public
    } else {
        Visibility::Private
    };
    let about = About {
        description: args.describe,
        tags: args.tags,
        skills: args.skills,
    };
    let registered = client.register(about, visibility).await?;
    client.close().await;
    let text = format!(
        "{} has a {visibility} card; others can write to it with: parler send --to {} TEXT",
        line(&agent.effective.name),
        registered.id
    );
    app.out.both(&text, &json!(registered))
}

/// Finds.
pub async fn discover(app: &App, args: DiscoverArgs) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let query = args.query.join(" ");
    let found = client
        .discover(Discover {
            scope: if args.public {
                DiscoverScope::Public
            } else {
                DiscoverScope::Hub
            },
            query: (!query.is_empty()).then_some(query),
            tag: args.tag,
            skill: args.skill,
            status: args.status,
            limit: args.limit,
        })
        .await?;
    client.close().await;
    let verdicts = judge(app, &agent, &found);
    let shown = || found.iter().zip(&verdicts);
    let rows: Vec<String> = shown()
        .map(|(entry, verdict)| row(entry, *verdict))
        .collect();
    let text = match rows.as_slice() {
        [] => "no card matches; agents publish theirs with: parler register".to_owned(),
        rows => rows.join("\n"),
    };
    let agents: Vec<_> = shown()
        .map(|(entry, verdict)| judged(entry, *verdict))
        .collect();
    app.out.both(&text, &json!({ "agents": agents }))
}

/// Shows one.
pub async fn card(app: &App, args: CardArgs) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let who = target::find(&client, &args.agent, Scope::Everywhere).await?;
    let entry = client.lookup(&who.id).await?;
    client.close().await;
    let Some(entry) = entry else {
        return Err(CliError::new(
            Kind::NotFound,
            format!("'{}' has no card here", line(&args.agent)),
        )
        .hint("see who has one: parler discover"));
    };
    let verdict = judge(app, &agent, std::slice::from_ref(&entry))[0];
    let mut text = row(&entry, verdict);
    let mut add = |what: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("\n  {what}: {}", words(value)));
        }
    };
    add("id", Some(&entry.card.id));
    add("about", entry.card.description.as_deref());
    add("activity", entry.activity.as_deref());
    let joined = |list: Vec<&str>| (!list.is_empty()).then(|| list.join(", "));
    let tags = entry.card.tags.iter().flatten().map(String::as_str);
    add("tags", joined(tags.collect()).as_deref());
    let skills = entry.card.skills.iter().flatten();
    add(
        "skills",
        joined(skills.map(|s| s.name.as_str()).collect()).as_deref(),
    );
    app.out.both(&text, &judged(&entry, verdict))
}

/// What the cards are worth: their signatures, and whether they differ from those that were seen
/// here before.
fn judge(app: &App, agent: &Agent, found: &[DirectoryEntry]) -> Vec<Verdict> {
    let known = KnownCards::open(&agent.identity.base);
    known.judge(found, app.cx.now_ms()).unwrap_or_else(|error| {
        output::note(&format!("note: cards are not remembered: {error}"));
        let bare = |entry| Verdict {
            state: check(entry),
            changed_since: None,
        };
        found.iter().map(bare).collect()
    })
}

/// A card for a program: as the hub has it, and what this side makes of it.
fn judged(entry: &DirectoryEntry, verdict: Verdict) -> Value {
    let mut shown = json!(entry);
    shown["signature"] = json!(match verdict.state {
        CardState::Valid => "valid",
        CardState::Unsigned => "unsigned",
        CardState::Invalid => "invalid",
    });
    shown["changedSince"] = json!(verdict.changed_since);
    shown
}

/// `name (role) …KEY6 [status] ✓`, and since when it is another one.
fn row(entry: &DirectoryEntry, verdict: Verdict) -> String {
    let role = entry.card.role.as_deref();
    let role = role.map(|role| format!(" ({})", name(role)));
    let changed = (verdict.changed_since)
        .map(|since| format!(", changed since {}", day(since)))
        .unwrap_or_default();
    let state = match verdict.state {
        CardState::Valid => "✓",
        CardState::Unsigned => "⚠ unsigned",
        CardState::Invalid => "✗ UNVERIFIED",
    };
    format!(
        "{}{} …{} [{}] {state}{changed}",
        name(&entry.card.name),
        role.unwrap_or_default(),
        line(short_id(&entry.card.id)),
        name(&entry.status)
    )
}
