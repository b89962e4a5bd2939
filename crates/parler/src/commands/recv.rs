//! `parler recv`: shows, then says how far it got.
//!
//! A message is written whole, to the reader, before it counts as read: a reader that is killed
//! goes on at the next message, and what a closed pipe did not take is still unread. With
//! `--watch` it goes on for ever, through outages of the hub, until it is told to stop or nobody
//! reads any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parler_connector::wake::consumer::{Claim, Holder, claim};
use parler_connector::wake::once::Once;
use parler_connector::{Client, ClientError, Read};
use parler_protocol::StoredMessage;
use serde_json::json;

use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::os::{self, Stop};
use crate::output::human::{place, shell_word};
use crate::output::message::{Shown, line_once, new_banner};
use crate::output::{self, Out};

/// Messages that are read at once.
const PAGE: u32 = 200;
/// Between two commits while messages stream: a reader that is killed repeats what it showed in
/// this time at most, and a long backlog costs the hub five requests a second at most.
const COMMIT_SPACING: Duration = Duration::from_millis(200);
/// One wait of `--watch`; after it the next begins.
const WATCH_BUDGET: Duration = Duration::from_secs(3600);
/// After a call that failed because the hub is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks beside the session that reads.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Messages that are remembered as shown until the hub knows: as many as a room keeps by default.
/// Of more, the oldest may be shown again.
const MAX_TO_COMMIT: usize = 50_000;
/// How long the last commit may take when told to stop.
const LAST_COMMIT: Duration = Duration::from_secs(2);

/// Read what is unread; with --watch, go on reading.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler recv\n  parler recv --watch\n  parler recv --room team --all --limit 50\n  timeout 30 parler recv --watch | head -c 4000"
)]
pub struct Args {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
    /// Show what came after that place, read or not; what is unread stays unread
    #[arg(long, value_name = "SEQ")]
    pub since: Option<i64>,
    /// Show everything, read or not (the same as --since 0)
    #[arg(long, conflicts_with = "since")]
    pub all: bool,
    /// Messages at most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Go on: print each message when it comes, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
}

/// Reads.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let since = args.since.or(args.all.then_some(0));
    if args.watch {
        return watch(app, &agent, client, &room, since, args.limit).await;
    }
    let read = match since {
        Some(seq) => Read::Since {
            seq,
            limit: args.limit,
        },
        None => Read::Unread { limit: args.limit },
    };
    let pulled = client.pull(&room, read).await?;
    let mut reading = Reading::new(app.out, &agent, &client, &room);
    reading.only_shows = read_by_another(app, &agent, &room);
    let shown = match app.out.json {
        true => app.out.object(&json!({
            "room": room,
            "messages": pulled.messages.iter().map(|m| Shown::new(m, &agent.me(), &reading.once)).collect::<Vec<_>>(),
            "cursor": pulled.cursor,
        })),
        false => reading.print_page(&pulled.messages, since.is_none()),
    };
    if since.is_none() {
        // Also after a closed pipe: what was written before it was read.
        let last = if app.out.json && shown.is_ok() {
            pulled.cursor
        } else {
            reading.shown
        };
        reading.shown = reading.shown.max(last);
        reading.commit().await?;
    }
    shown?;
    let full = pulled.messages.len() >= args.limit as usize;
    app.out.say(&footer(
        &room,
        &pulled.messages,
        pulled.cursor,
        full,
        since.is_some(),
    ))?;
    client.close().await;
    Ok(())
}

fn footer(room: &str, messages: &[StoredMessage], cursor: i64, full: bool, again: bool) -> String {
    if messages.is_empty() {
        let what = if again {
            "no messages"
        } else {
            "no new messages"
        };
        return format!("({what} in {})", place(room));
    }
    let more = match (full, again) {
        (false, _) => String::new(),
        (true, true) => format!(
            "; there is more: parler recv --room {} --since {cursor}",
            shell_word(room)
        ),
        (true, false) => "; more is waiting: parler recv".to_owned(),
    };
    output::human::text(&format!("— cursor at {cursor}{more} —"))
}

/// Prints messages as they come, until told to stop.
///
/// # Errors
/// What waiting cannot heal: the room is gone, the login is refused, Ctrl-C.
pub async fn watch(
    app: &App,
    agent: &Agent,
    client: Client,
    room: &str,
    since: Option<i64>,
    limit: u32,
) -> CliResult {
    let mut reading = Reading::new(app.out, agent, &client, room);
    reading.only_shows = read_by_another(app, agent, room);
    output::remark(&format!(
        "watching {} as {}; Ctrl-C ends it",
        place(room),
        agent.me().name
    ));
    let work = async {
        // A hub that cannot show it is no reason not to read.
        let _ = client.presence("waiting", None, None).await;
        if let Some(seq) = since {
            reading.history(seq, limit).await?;
        }
        match reading.only_shows {
            true => reading.look_on(limit).await,
            false => reading.follow(limit).await,
        }
    };
    let ended = tokio::select! {
        done = work => done,
        stop = os::stop_signal() => match stop {
            Stop::Interrupt => Err(CliError::new(Kind::Interrupted, "interrupted")),
            Stop::Terminate => Ok(()),
        },
        () = nobody_reads() => Ok(()),
    };
    // What was shown and not committed yet; not being able to is no failure, only a repetition.
    let _ = tokio::time::timeout(LAST_COMMIT, reading.commit()).await;
    ended
}

/// Whether another session of an agent host reads that room as this agent: then this command only
/// shows, and says so.
fn read_by_another(app: &App, agent: &Agent, room: &str) -> bool {
    let session = agent.identity.session.as_ref();
    let host = session.map_or("terminal", |session| session.host.as_str());
    let me = Holder::this(&app.cx, host, session.and_then(|s| s.session_id.as_deref()));
    let id = agent.config.id.as_str();
    // A claim that comes free is let go at once: a terminal reads beside other terminals.
    match claim(&app.cx, &agent.identity.base, id, room, &me) {
        Ok(Claim::Held(holder)) => {
            let who = holder.map_or("another session".to_owned(), |holder| holder.to_string());
            output::note(&format!(
                "note: {who} reads this room as this agent; this only shows"
            ));
            true
        }
        Ok(Claim::Mine(_) | Claim::Shared) | Err(_) => false,
    }
}

/// Completes when the other end of a piped standard output is closed.
async fn nobody_reads() {
    let (gone, told) = tokio::sync::oneshot::channel::<()>();
    // Ends with the process: the call that it sits in cannot be interrupted.
    std::thread::spawn(move || {
        os::wait_until_reader_gone();
        let _ = gone.send(());
    });
    if told.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A room being read: how far it was shown, how far the hub knows.
pub struct Reading<'a> {
    out: Out,
    agent: &'a Agent,
    client: &'a Client,
    room: &'a str,
    /// The last message that was written out.
    pub shown: i64,
    /// Somebody else reads as this agent: no cursor is moved.
    only_shows: bool,
    /// Which turns were offered before.
    pub once: Once,
    committed: i64,
    last_commit: Option<Instant>,
    /// What was shown and the hub may still call unread: place and id.
    to_commit: BTreeMap<i64, String>,
}

impl<'a> Reading<'a> {
    /// Nothing shown yet.
    pub fn new(out: Out, agent: &'a Agent, client: &'a Client, room: &'a str) -> Reading<'a> {
        Reading {
            out,
            agent,
            client,
            room,
            shown: 0,
            only_shows: false,
            once: Once::open(&agent.identity.base, agent.config.id.as_str()),
            committed: 0,
            last_commit: None,
            to_commit: BTreeMap::new(),
        }
    }

    /// The turns for this agent in these messages that are new.
    pub fn banner(&self, messages: &[StoredMessage]) -> Option<String> {
        new_banner(messages, &self.agent.me(), &self.once, self.out.paint)
    }

    /// Writes a page: the banners first, then the messages in order.
    ///
    /// # Errors
    /// A closed pipe; [`Reading::shown`] is then the last message that was written whole.
    pub fn print_page(&mut self, messages: &[StoredMessage], lead: bool) -> CliResult {
        let me = self.agent.me();
        if lead && let Some(banner) = self.banner(messages) {
            output::write(&banner)?;
        }
        for message in messages {
            output::write(&line_once(message, &me, &self.once, self.out.paint))?;
            self.shown = self.shown.max(message.seq);
        }
        Ok(())
    }

    /// Tells the hub how far it was shown, if it does not know.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        if self.shown > self.committed && !self.only_shows {
            self.client.commit(self.room, self.shown).await?;
            self.committed = self.shown;
            self.to_commit.clear();
            self.last_commit = Some(Instant::now());
        }
        Ok(())
    }

    /// Shows what was there before, page by page, and moves nothing.
    async fn history(&mut self, since: i64, limit: u32) -> CliResult {
        let mut seq = since;
        loop {
            let pulled = self
                .client
                .pull(self.room, Read::Since { seq, limit })
                .await?;
            for message in &pulled.messages {
                self.show(message).await?;
            }
            if pulled.messages.is_empty() || pulled.cursor <= seq {
                return Ok(());
            }
            seq = pulled.cursor;
        }
    }

    async fn follow(&mut self, limit: u32) -> CliResult {
        loop {
            match self.client.wait(self.room, limit, WATCH_BUDGET).await {
                Ok(pulled) => self.take(&pulled.messages).await?,
                Err(error) if error.is_outage() || error.retryable() => {
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Shows what is unread and what comes, beside the session that reads.
    async fn look_on(&mut self, limit: u32) -> CliResult {
        let pushed = self.client.subscribe().await?;
        let unread = self.client.pull(self.room, Read::Unread { limit }).await?;
        for message in &unread.messages {
            if message.seq > self.shown {
                self.show(message).await?;
            }
        }
        self.shown = self.shown.max(unread.cursor);
        loop {
            tokio::select! {
                _ = self.client.next_push(), if pushed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            match self.history(self.shown, limit).await {
                Err(error) if error.kind == Kind::Unreachable => {}
                done => done?,
            }
        }
    }

    /// Whether this very message was written out, and the hub was not told so.
    fn was_shown(&self, message: &StoredMessage) -> bool {
        self.to_commit.get(&message.seq) == Some(&message.id)
    }

    /// Forgets marks that the hub's log no longer bears out: it calls something unread at a place
    /// that it had taken as read, or where another message was. Then the room was made anew, or
    /// the hub restored, and its places start lower.
    fn follow_back(&mut self, unread: &[StoredMessage]) {
        let back = unread.iter().find(|message| {
            message.seq <= self.committed || (message.seq <= self.shown && !self.was_shown(message))
        });
        if let Some(back) = back {
            self.shown = back.seq.saturating_sub(1);
            self.committed = self.committed.min(self.shown);
            self.to_commit.split_off(&back.seq);
        }
    }

    async fn take(&mut self, messages: &[StoredMessage]) -> CliResult {
        self.follow_back(messages);
        for message in messages {
            if !self.was_shown(message) {
                self.show(message).await?;
                if self
                    .last_commit
                    .is_none_or(|last| last.elapsed() >= COMMIT_SPACING)
                {
                    self.commit_if_there().await?;
                }
            }
        }
        self.commit_if_there().await
    }

    /// A hub that is away is told later: the next page begins with what it does not know.
    async fn commit_if_there(&mut self) -> CliResult {
        match self.commit().await {
            Err(error) if !error.is_outage() && !error.retryable() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// One message by itself, its banner first.
    async fn show(&mut self, message: &StoredMessage) -> CliResult {
        let me = self.agent.me();
        if self.out.json {
            self.write(output::json::line(&Shown::new(message, &me, &self.once)))
                .await?;
        } else {
            let lead = self.banner(std::slice::from_ref(message));
            let lead = lead.map(|banner| banner + "\n").unwrap_or_default();
            self.write(lead + &line_once(message, &me, &self.once, self.out.paint))
                .await?;
        }
        self.shown = self.shown.max(message.seq);
        if !self.only_shows {
            self.to_commit.insert(message.seq, message.id.clone());
        }
        if self.to_commit.len() > MAX_TO_COMMIT {
            self.to_commit.pop_first();
        }
        Ok(())
    }

    /// Writes on a thread of its own, so that a reader that does not read holds up no signal.
    async fn write(&self, text: String) -> CliResult {
        let written = tokio::task::spawn_blocking(move || output::write(&text)).await;
        written.map_err(|e| CliError::new(Kind::Internal, e.to_string()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_says_what_is_left() {
        assert_eq!(
            footer("auth", &[], 4, false, false),
            "(no new messages in session 'auth')"
        );
        assert_eq!(
            footer("auth", &[], 0, false, true),
            "(no messages in session 'auth')"
        );
    }

    #[test]
    fn the_command_in_the_footer_means_the_room_that_was_typed() {
        let message = serde_json::json!({"seq": 1, "id": "m", "room": "r", "ts": 1, "parts": [],
            "from": {"id": "U", "name": "n"}});
        let messages = [serde_json::from_value(message).unwrap()];
        for (room, word) in [
            ("auth", "auth"),
            ("a b", "'a b'"),
            ("x; rm -rf ~", "'x; rm -rf ~'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            let said = footer(room, &messages, 7, true, true);
            let wanted = format!("parler recv --room {word} --since 7");
            assert!(said.contains(&wanted), "{said}");
        }
    }
}
