//! One of the two agents: an identity of its own, a connection of its own, and a part to play.

use std::time::Duration;

use parler_connector::{Client, Outgoing, Read, Redeemed};
use parler_protocol::links::portable_key;
use parler_protocol::{
    HandoffRef, Invite, Part, RoomKind, StoredMessage, Task, TaskStatus, TypedPart,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc::{Receiver, Sender};

use super::event::{Event, Step, now_us};
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::local_hub::LocalHub;
use crate::output::human::Paint;
use crate::output::message::banner;

/// How long an agent waits for the other one.
const PATIENCE: Duration = Duration::from_secs(20);
/// Cues that may wait: the stage gives one at a time.
const MAX_CUES: usize = 4;
/// The file that the turn asks for.
pub const FILE: &str = "login.html";
const PAGE: &str = "<form method=\"post\" action=\"/login\"><button>Log in</button></form>\n";
const NEXT: &str = "write login.html for the new endpoint and report back";
const SUMMARY: &str = "POST /login works and is tested";

/// Who plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Opens the session, hands over, reads the report.
    Planner,
    /// Joins, waits, acts, reports.
    Webdev,
}

impl Role {
    /// Its name, as `--as` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Webdev => "webdev",
        }
    }
}

/// An agent on its stage.
struct Player {
    agent: Agent,
    client: Client,
    cues: Receiver<String>,
}

/// Plays a part; ends early when the stage closes standard input.
///
/// # Errors
/// What the agent could not do.
pub async fn play(app: &App, role: Role) -> CliResult {
    let (give, cues) = tokio::sync::mpsc::channel(MAX_CUES);
    tokio::select! {
        done = perform(app, role, cues) => done,
        () = read_cues(give) => Err(CliError::new(Kind::ClosedPipe, "the stage is gone")),
    }
}

/// Passes on what the stage says, until it says no more.
async fn read_cues(give: Sender<String>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if give.send(line).await.is_err() {
            break;
        }
    }
}

async fn perform(app: &App, role: Role, cues: Receiver<String>) -> CliResult {
    let agent = app.agent(None)?;
    // The stage's hub, and never one of its own: nothing may be left when the stage is gone.
    let known = LocalHub::of(&agent.identity.base).known()?;
    let place = connect_hub::place(app, &agent, None);
    let endpoint = connect_hub::endpoint_to(app, &agent, &place, known.as_ref())?;
    let client = Client::connect(connect_hub::options(&agent, endpoint)?).await?;
    client.subscribe().await?;
    let mut player = Player {
        agent,
        client,
        cues,
    };
    match role {
        Role::Planner => player.plan().await,
        Role::Webdev => player.build().await,
    }
}

impl Player {
    async fn plan(&mut self) -> CliResult {
        let invite = Invite {
            kind: RoomKind::Channel,
            room: Some("demo".into()),
            ttl_secs: None,
            max_uses: Some(1),
            require_approval: false,
        };
        let invited = self.client.invite(invite).await?;
        self.tell(
            Step::Opened,
            portable_key(&invited.code, self.client.hub_url()),
            now_us(),
        )?;
        self.cue().await?;
        let handoff = HandoffRef {
            next: NEXT.into(),
            summary: Some(SUMMARY.into()),
            to: Some(Role::Webdev.name().into()),
            bundle: None,
        };
        let offered = now_us();
        self.client
            .send(Outgoing::handoff(&invited.room, &handoff))
            .await?;
        self.tell(Step::Offered, format!("\"{NEXT}\""), offered)?;
        let report = self
            .wait_for(&invited.room, |message| {
                Task::find(&message.parts).is_some()
            })
            .await?;
        let words = Task::find(&report.parts)
            .and_then(|task| task.note)
            .unwrap_or_default();
        self.tell(Step::Reported, words, now_us())
    }

    async fn build(&mut self) -> CliResult {
        let key = self.cue().await?;
        let code = parler_protocol::links::split_key(&key).code;
        let Redeemed::Joined(joined) = self.client.redeem(&code).await? else {
            return Err(CliError::new(
                Kind::Demo,
                "the session does not let webdev in",
            ));
        };
        // Proves that the room can be read before the stage is told that this agent waits in it.
        self.client
            .pull(&joined.room, Read::Unread { limit: 1 })
            .await?;
        self.tell(Step::Waiting, String::new(), now_us())?;
        let turn = self.wait_for(&joined.room, |message| {
            HandoffRef::find(&message.parts).is_some()
        });
        let turn = turn.await?;
        self.tell(Step::Delivered, String::new(), now_us())?;
        let banner = banner(
            std::slice::from_ref(&turn),
            &self.agent.me(),
            Paint::new(false),
        );
        let banner =
            banner.ok_or_else(|| CliError::new(Kind::Demo, "the handoff is not for webdev"))?;
        self.tell(Step::Woken, banner, now_us())?;
        std::fs::write(FILE, PAGE)?;
        self.tell(
            Step::Acted,
            format!("wrote {FILE}, {} bytes", PAGE.len()),
            now_us(),
        )?;
        let done = Task {
            status: TaskStatus::Done,
            task: Some(turn.id.clone()),
            note: Some(format!("{FILE} is there, over to you")),
            result: None,
            tokens: None,
            elapsed_ms: None,
        };
        let mut report = Outgoing::to_room(&joined.room, vec![Part::text("done"), done.to_part()]);
        report.reply_to = Some(turn.id);
        self.client.send(report).await?;
        Ok(())
    }

    /// Blocks until such a message by somebody else is there.
    async fn wait_for(
        &self,
        room: &str,
        wanted: impl Fn(&StoredMessage) -> bool,
    ) -> CliResult<StoredMessage> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let pulled = self.client.wait(room, 50, left).await?;
            self.client.commit(room, pulled.cursor).await?;
            let me = self.agent.config.id.as_str();
            let found = pulled
                .messages
                .into_iter()
                .find(|m| m.from.id != me && wanted(m));
            match found {
                Some(message) => return Ok(message),
                None if left.is_zero() => {
                    return Err(CliError::new(Kind::Demo, "nothing came within the time"));
                }
                None => {}
            }
        }
    }

    /// The next line from the stage.
    async fn cue(&mut self) -> CliResult<String> {
        let gone = || CliError::new(Kind::ClosedPipe, "the stage is gone");
        self.cues.recv().await.ok_or_else(gone)
    }

    fn tell(&self, step: Step, text: String, at_us: u64) -> CliResult {
        let agent = self.agent.effective.name.clone();
        Ok(Event {
            step,
            at_us,
            agent,
            text,
        }
        .tell()?)
    }
}
