//! `parler join`, and what `session join` does: in by a key, caught up, and said so.

use std::collections::VecDeque;
use std::time::Duration;

use parler_connector::config::{Config, HubChoice, Minted};
use parler_connector::render::{DIGEST_MESSAGES, Me, gives_context};
use parler_connector::{Client, Outgoing, Read, Redeemed};
use parler_protocol::links::{split_key, tidy_code};
use parler_protocol::{HandoffRef, Joined, RoomKind, StoredMessage, TypedPart};
use serde_json::json;

use super::recv::{self, Reading};
use crate::app::{Agent, App};
use crate::connect_hub::{self, Place};
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::{count, line, place, shell_word};
use crate::output::message::Shown;
use crate::text;

/// Messages of one page of the backlog.
const PAGE: u32 = 1000;
/// Pages at most: a hub that never comes to an end is left there, and the rest stays unread. A
/// page holds 8 MiB at most, so large messages come in short ones: those of a full room fit.
const MAX_PAGES: usize = 2000;
/// The longest time that anybody may wait for an owner; more would overflow the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Between two looks whether the owner has decided.
const PENDING_PAUSE: Duration = Duration::from_millis(750);
/// Messages of one read when following.
const FOLLOW_PAGE: u32 = 200;

/// Join a room by a code or key.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler join A3KELDJR@parler://127.0.0.1:7070")]
pub struct Args {
    /// The code or key
    pub key: String,
    /// Your role
    #[arg(long)]
    pub role: Option<String>,
    #[command(flatten)]
    pub entrance: Entrance,
}

/// How to come in.
#[derive(Clone, Debug, clap::Args)]
pub struct Entrance {
    /// Show the whole backlog, not just the seed and the latest
    #[arg(long)]
    pub full: bool,
    /// When the owner has to decide: wait that long for it, a year at most
    #[arg(long, value_name = "SECS", default_value_t = 0)]
    pub wait: u64,
}

impl Entrance {
    /// Whether it may take longer than a command usually may.
    pub fn waits(&self) -> bool {
        self.wait > 0
    }
}

/// Joins.
pub async fn run(app: &App, args: Args) -> CliResult {
    by_key(app, &args.key, args.role.as_deref(), &args.entrance, false).await
}

/// Joins by a key, shows the backlog, makes the room active.
///
/// # Errors
/// A key that is none, a hub that cannot be reached, an owner who has not decided.
pub async fn by_key(
    app: &App,
    key: &str,
    role: Option<&str>,
    entrance: &Entrance,
    follow: bool,
) -> CliResult {
    let split = split_key(key);
    let code = tidy_code(&split.code);
    if code.is_empty() {
        return Err(CliError::usage("the key is empty").hint("parler session join CODE@HUB"));
    }
    let agent = app.agent(role)?;
    let hub = connect_hub::place(app, &agent, split.hub.as_deref());
    let client = connect_hub::client_at(app, &agent, &hub).await?;
    let before: Vec<String> = client
        .rooms()
        .await?
        .into_iter()
        .map(|room| room.name)
        .collect();
    let joined = redeem(&client, &code, split.hub.is_some(), entrance.wait).await?;
    keep_hub(&agent, &hub, &joined)?;
    let fresh = !before.contains(&joined.room);
    if fresh && joined.kind == RoomKind::Channel {
        client
            .send(Outgoing::text(
                &joined.room,
                text::joined(&agent.effective.name),
            ))
            .await?;
    }
    let backlog = Backlog::read(&client, &joined.room, &agent.me(), entrance.full).await?;
    let members = client.roster(&joined.room).await?.len();
    let mut reading = Reading::new(app.out, &agent, &client, &joined.room);
    show(app, &agent, &mut reading, &joined, &backlog, members)?;
    reading.shown = reading.shown.max(backlog.cursor);
    reading.commit().await?;
    if follow {
        return recv::watch(app, &agent, client.clone(), &joined.room, None, FOLLOW_PAGE).await;
    }
    client.close().await;
    Ok(())
}

/// Redeems the code; where the owner has to decide, asks again for as long as one is willing to
/// wait.
async fn redeem(client: &Client, code: &str, named_hub: bool, wait: u64) -> CliResult<Joined> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(wait).min(LONGEST_WAIT);
    loop {
        let pending = match client.redeem(code).await {
            Ok(Redeemed::Joined(joined)) => return Ok(joined),
            Ok(Redeemed::Pending { room }) => room,
            Err(error) => {
                let hint = error.hint();
                let error = CliError::from(error);
                return Err(match hint {
                    Some(_) if named_hub => error,
                    _ if named_hub => error.hint("ask for a new key"),
                    _ => error.hint(format!(
                        "asked at {}; a key of another hub has the form CODE@HUB",
                        client.hub_url()
                    )),
                });
            }
        };
        if tokio::time::Instant::now() >= deadline {
            return Err(CliError::new(
                Kind::Pending,
                format!(
                    "asked to be let into {}; its owner has to decide",
                    place(&pending)
                ),
            )
            .hint("run the same command again later, or with --wait SECS"));
        }
        tokio::time::sleep(PENDING_PAUSE).await;
    }
}

/// Remembers where the session lives: for an identity made just now it becomes its hub, for an
/// older one it holds as long as the session is the active one.
fn keep_hub(agent: &Agent, hub: &Place, joined: &Joined) -> CliResult {
    let elsewhere = hub.url.as_deref().filter(|_| hub.carried && !hub.local);
    if let (Some(url), Minted::Yes, HubChoice::Local) =
        (elsewhere, agent.minted, &agent.effective.hub)
    {
        Config::update(&agent.identity.home, |config| {
            config.set_hub(url, true);
        })?;
    }
    if joined.kind == RoomKind::Channel {
        agent.set_active(Some(&joined.room))?;
        agent.set_active_hub(hub.url.as_deref().filter(|_| hub.carried))?;
    }
    Ok(())
}

/// What a newcomer has not seen: all of it read, and of it kept what is shown.
#[derive(Default)]
struct Backlog {
    /// All of it is kept.
    full: bool,
    /// The message that gave the context, once the latest push it out.
    seed: Option<StoredMessage>,
    /// Handoffs to this agent that the latest pushed out: the newest, as many as are shown.
    handoffs: VecDeque<StoredMessage>,
    /// The latest; all of them when `full`.
    recent: VecDeque<StoredMessage>,
    /// How many are shown neither as seed nor among the latest.
    left_out: usize,
    cursor: i64,
}

impl Backlog {
    async fn read(client: &Client, room: &str, me: &Me<'_>, full: bool) -> CliResult<Backlog> {
        let mut backlog = Backlog {
            full,
            ..Backlog::default()
        };
        let mut page = client.pull(room, Read::Unread { limit: PAGE }).await?;
        backlog.cursor = page.cursor;
        let mut seen = i64::MIN;
        // A page that is not full is no end: a hub also cuts it by its size.
        for _ in 0..MAX_PAGES {
            let last = page.messages.last().map(|message| message.seq);
            let Some(last) = last.filter(|&last| last > seen) else {
                break;
            };
            seen = last;
            backlog.cursor = backlog.cursor.max(last);
            for message in page.messages.into_iter().filter(|m| m.from.id != me.id) {
                backlog.add(message, me);
            }
            let next = Read::Since {
                seq: backlog.cursor,
                limit: PAGE,
            };
            page = client.pull(room, next).await?;
        }
        Ok(backlog)
    }

    fn add(&mut self, message: StoredMessage, me: &Me<'_>) {
        self.recent.push_back(message);
        if self.full || self.recent.len() <= DIGEST_MESSAGES {
            return;
        }
        let Some(older) = self.recent.pop_front() else {
            return;
        };
        if HandoffRef::find(&older.parts).is_some_and(|handoff| me.is_meant(&handoff)) {
            self.handoffs.push_back(older.clone());
            if self.handoffs.len() > DIGEST_MESSAGES {
                self.handoffs.pop_front();
            }
        }
        if self.seed.is_none() && gives_context(&older) {
            self.seed = Some(older);
        } else {
            self.left_out += 1;
        }
    }

    /// The seed and the latest.
    fn digest(&self) -> Vec<StoredMessage> {
        self.seed.iter().chain(&self.recent).cloned().collect()
    }

    /// What may lead: also handoffs that the digest leaves out.
    fn leading(&self) -> Vec<StoredMessage> {
        self.handoffs.iter().chain(&self.recent).cloned().collect()
    }
}

fn show(
    app: &App,
    agent: &Agent,
    reading: &mut Reading<'_>,
    joined: &Joined,
    backlog: &Backlog,
    members: usize,
) -> CliResult {
    let (messages, left_out) = (backlog.digest(), backlog.left_out);
    let me = agent.me();
    app.out.object(&json!({
        "room": joined.room, "kind": joined.kind, "members": members, "leftOut": left_out,
        "cursor": backlog.cursor, "id": agent.config.id, "name": agent.effective.name,
        "messages": messages.iter().map(|m| Shown::new(m, &me, &reading.once)).collect::<Vec<_>>(),
    }))?;
    if app.out.json {
        return Ok(());
    }
    // Also a handoff that the digest leaves out leads.
    if let Some(banner) = reading.banner(&backlog.leading()) {
        app.out.say(&banner)?;
    }
    let role = agent
        .effective
        .role
        .as_deref()
        .map(|role| format!(" ({})", line(role)));
    app.out.say(&format!(
        "joined {} as {}{}; {}",
        place(&joined.room),
        app.out.paint.strong(&line(&agent.effective.name)),
        role.unwrap_or_default(),
        count(members, "member"),
    ))?;
    if left_out > 0 {
        let room = shell_word(&joined.room);
        let what = count(left_out, "earlier message");
        app.out.say(&format!(
            "— {what} left out; all of them: parler recv --room {room} --all —"
        ))?;
    }
    reading.print_page(&messages, false)?;
    app.out.say(&format!(
        "— caught up, cursor at {}; wait for your turn: parler recv --watch —",
        backlog.cursor
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{EndpointRef, Part};

    const ME: Me<'_> = Me {
        id: "ME",
        name: "webdev",
        role: None,
    };

    fn handoff() -> Part {
        HandoffRef {
            next: "build it".into(),
            summary: None,
            to: Some("webdev".into()),
            bundle: None,
        }
        .to_part()
    }

    fn backlog(n: i64, full: bool) -> Backlog {
        let message = |seq: i64| StoredMessage {
            seq,
            id: format!("m{seq}"),
            room: "auth".into(),
            from: EndpointRef {
                id: "U".into(),
                name: "planner".into(),
                role: None,
            },
            parts: vec![match seq {
                2 => Part::text(text::session_context("planner", "build it")),
                3 => handoff(),
                _ => Part::text(format!("message {seq}")),
            }],
            mentions: None,
            reply_to: None,
            ts: 0,
        };
        let mut backlog = Backlog {
            full,
            ..Backlog::default()
        };
        (1..=n).for_each(|seq| backlog.add(message(seq), &ME));
        backlog
    }

    fn seqs(messages: &[StoredMessage]) -> Vec<i64> {
        messages.iter().map(|message| message.seq).collect()
    }

    #[test]
    fn a_long_backlog_shows_its_seed_and_its_end_and_a_handoff_leads() {
        let long = backlog(40, false);
        assert_eq!(
            seqs(&long.digest()),
            [vec![2], (26..=40).collect()].concat()
        );
        assert_eq!(long.left_out, 24);
        assert_eq!(seqs(&long.leading())[..2], [3, 26]);
        assert_eq!(backlog(40, true).digest().len(), 40);
        let short = backlog(15, false);
        assert_eq!((short.digest().len(), short.left_out), (15, 0));
    }

    #[test]
    fn a_long_backlog_is_not_kept_in_memory() {
        let long = backlog(10_000, false);
        assert_eq!(long.recent.len(), DIGEST_MESSAGES);
        assert!(long.handoffs.len() <= DIGEST_MESSAGES);
    }
}
