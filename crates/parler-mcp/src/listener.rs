//! Listening while the model does something else, and ringing when something is for it.
//!
//! While a session is active:
//!
//! 1. every push is judged by the wake policy; what was missed (before, or while the connection
//!    was away) is looked for at once and then now and then, and judged by the same function;
//! 2. what is unread for this agent is noted ([`crate::heard`]);
//! 3. when something may wake the host, no call is in flight and none waits, the doorbells of the
//!    session are rung, once for a thing, also across restarts.
//!
//! Never moves a cursor: only an answer that was shown does.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parler_connector::config::{AttentionSettings, Config};
use parler_connector::doorbell::Ladder;
use parler_connector::wake::policy::{Class, Decision, Receiver, decide};
use parler_connector::{Client, ClientError, Notice, Read};
use parler_protocol::turn::{TurnFilter, TurnsQuery};
use parler_protocol::{Pulled, StoredMessage, Turn, TurnState};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::ToolError;
use crate::lead::{LOOK, is_news};
use crate::ring::{Bell, EndBell};
use crate::state::Tools;

/// How often the log is asked for what no push told, where pushes come: those of an outage never
/// do, and nobody tells that there was one. One cheap op each.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The same where the hub refuses pushes.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// First and longest pause while the hub is away.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How old the number of members may be by which an ordinary message is judged.
const MEMBERS_FRESH: Duration = Duration::from_secs(5);
/// Messages of one look into a room.
const PAGE: u32 = 200;
/// Ends of turns that wait to be told of; a look into the ledger shows more.
const MAX_ENDED: usize = 32;
/// Pages of one look; a room with more unread has enough to tell of.
const MAX_PAGES: usize = 5;

/// What the listener needs.
pub(crate) struct Listener {
    pub(crate) tools: Arc<Tools>,
    pub(crate) ladder: Arc<Ladder>,
    /// Where the agent's attention is kept.
    pub(crate) home: PathBuf,
}

/// What is known of the hub's rooms while one client is listened to.
struct Ear<'a> {
    listener: &'a Listener,
    client: Client,
    /// Members of each room, and when that was asked.
    members: HashMap<String, u32>,
    asked_at: Option<Instant>,
    /// What was unread in each room at the last look.
    unread: HashMap<String, Unread>,
    rings: &'a mut JoinSet<()>,
    /// Turns of this agent that ended, and that its host was not told of.
    ended: VecDeque<Turn>,
}

/// What is unread in a room. The number alone does not tell: one may have been read and another
/// one come since the last look.
#[derive(PartialEq, Eq)]
struct Unread {
    by_others: u32,
    /// Id of the oldest.
    first: Option<String>,
}

impl Listener {
    /// Listens for as long as it is polled.
    pub(crate) async fn run(self) {
        let mut session = self.tools.session.changes();
        let mut generations = self.tools.agent.generations();
        let mut pause = PAUSE.0;
        // A ring waits for the host; it outlives an outage of the hub.
        let mut rings = JoinSet::new();
        loop {
            if session.wait_for(Option::is_some).await.is_err() {
                return;
            }
            generations.mark_unchanged();
            tokio::select! {
                error = self.attend(&mut rings) => {
                    tracing::debug!(%error, "not listening");
                    if !error.passes() {
                        // Only another name, hub or session can change that.
                        tokio::select! {
                            _ = session.changed() => {}
                            _ = generations.changed() => {}
                        }
                    }
                    sleep(pause.mul_f64(fastrand::f64())).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                _ = session.changed() => pause = PAUSE.0,
                _ = generations.changed() => pause = PAUSE.0,
            }
        }
    }

    async fn attend(&self, rings: &mut JoinSet<()>) -> ToolError {
        let client = match self.tools.agent.client().await {
            Ok(client) => client,
            Err(error) => return error,
        };
        match Ear::new(self, client, rings).attend().await {
            Ok(never) => match never {},
            Err(error) => error.into(),
        }
    }

    fn attention(&self) -> AttentionSettings {
        match Config::load(&self.home) {
            Ok(Some(config)) => config.attention,
            Ok(None) => AttentionSettings::default(),
            Err(error) => {
                tracing::warn!(%error, "the attention settings cannot be read; the defaults hold");
                AttentionSettings::default()
            }
        }
    }
}

impl<'a> Ear<'a> {
    fn new(listener: &'a Listener, client: Client, rings: &'a mut JoinSet<()>) -> Self {
        Ear {
            listener,
            client,
            members: HashMap::new(),
            asked_at: None,
            unread: HashMap::new(),
            rings,
            ended: VecDeque::new(),
        }
    }

    /// Listens until the hub cannot be asked any more.
    async fn attend(&mut self) -> Result<Infallible, ClientError> {
        let pushed = self.client.subscribe().await?;
        let every = if pushed { LOOK_EVERY } else { POLL_EVERY };
        let mut activity = self.listener.tools.activity.changes();
        let mut look_at = Instant::now();
        self.catch_up().await;
        loop {
            self.ring_if_due();
            tokio::select! {
                message = self.client.next_push(), if pushed => self.hear(message).await,
                notice = self.client.next_event(), if pushed => self.heed(notice).await,
                () = sleep_until(look_at) => {
                    self.look().await?;
                    look_at = Instant::now() + every.mul_f64(0.8 + 0.2 * fastrand::f64());
                }
                _ = activity.changed() => {}
                Some(_) = self.rings.join_next() => {}
                () = due(&self.listener.tools) => {}
            }
        }
    }

    /// Judges a pushed message.
    async fn hear(&mut self, message: StoredMessage) {
        if message.from.id == self.client.id().as_str() {
            return;
        }
        let stale = self.asked_at.is_none_or(|at| at.elapsed() > MEMBERS_FRESH);
        if stale && let Err(error) = self.ask_members().await {
            tracing::debug!(%error, "the number of members is not known");
        }
        let decision = self.judge(&self.listener.attention(), &message, false);
        tracing::debug!(room = message.room, seq = message.seq, ?decision, "pushed");
        self.listener.tools.heard.note(message, decision);
    }

    /// What no notice told: those of an outage never come.
    async fn catch_up(&mut self) {
        let query = TurnsQuery {
            state: Some(TurnFilter::All),
            limit: Some(LOOK),
            ..TurnsQuery::default()
        };
        let turns = match self.listener.tools.ledger_turns(query).await {
            Ok(turns) => turns.unwrap_or_default(),
            Err(error) => return tracing::debug!(%error, "the ledger cannot be asked"),
        };
        let me = self.client.id().as_str().to_owned();
        for turn in turns {
            let own = turn.from.id == me;
            if if own {
                is_news(&turn)
            } else {
                self.listener.tools.may_be_mine(&turn)
            } {
                self.heed(Notice::Turn(Box::new(turn))).await;
            }
        }
    }

    /// A turn moved, or somebody waits to be let in.
    async fn heed(&mut self, notice: Notice) {
        let tools = &self.listener.tools;
        if let Notice::Turn(turn) = &notice
            && turn
                .taken_by
                .as_ref()
                .is_none_or(|by| by.id != self.client.id().as_str() || turn.state.terminal())
        {
            tools.turns.over(&turn.message, turn.take);
        }
        match notice {
            Notice::Turn(turn) if turn.from.id == self.client.id().as_str() => {
                if turn.state.terminal() && self.ended.len() < MAX_ENDED {
                    self.ended.push_back(*turn);
                }
            }
            // The first offer comes as a message.
            Notice::Turn(turn) if turn.state == TurnState::Open && turn.take > 0 => {
                let Some(message) = tools.offer_of(&turn).await else {
                    return;
                };
                let decision = self.judge(&self.listener.attention(), &message, false);
                if decision.wakes() == Some(Class::Turn) {
                    tools.heard.offered_again(message, decision);
                }
            }
            Notice::JoinRequest(asked) => tools.note(format!(
                "{} asks to be let into '{}': your user decides with parler session requests.",
                crate::turns::name(&asked.request.name),
                parler_connector::safe::token(&asked.room)
            )),
            Notice::Turn(_) | Notice::Guard(_) => {}
        }
    }

    async fn ask_members(&mut self) -> Result<Vec<(String, u32)>, ClientError> {
        let rooms = self.client.rooms().await?;
        self.members = rooms
            .iter()
            .map(|room| (room.name.clone(), room.members))
            .collect();
        self.asked_at = Some(Instant::now());
        Ok(rooms
            .into_iter()
            .map(|room| (room.name, room.unread_others.unwrap_or(room.unread)))
            .collect())
    }

    /// Looks into every room where something else is unread than at the last look.
    async fn look(&mut self) -> Result<(), ClientError> {
        for (room, by_others) in self.ask_members().await? {
            if by_others == 0 {
                self.listener.tools.heard.unread_from(&room, None);
                self.unread.remove(&room);
                continue;
            }
            let first = self.first_unread(&room).await?;
            let unread = Unread { by_others, first };
            if self.unread.get(&room) != Some(&unread) {
                let end = self.look_into(&room).await?;
                let heard = &self.listener.tools.heard;
                if end.is_some_and(|end| heard.beyond(&room, end)) {
                    // A log only grows, unless the hub was restored.
                    heard.set_back(&room);
                    self.look_into(&room).await?;
                }
                self.unread.insert(room, unread);
            }
        }
        Ok(())
    }

    async fn first_unread(&self, room: &str) -> Result<Option<String>, ClientError> {
        let page = self.client.pull(room, Read::Unread { limit: 1 }).await?;
        Ok(page.messages.into_iter().next().map(|message| message.id))
    }

    /// Notes what is unread in a room. Where its log ends, if it was read to there.
    async fn look_into(&mut self, room: &str) -> Result<Option<i64>, ClientError> {
        let mut page = self.client.pull(room, Read::Unread { limit: PAGE }).await?;
        let first = page.messages.first().map(|message| message.seq);
        self.listener.tools.heard.unread_from(room, first);
        let mut end = None;
        for _ in 0..MAX_PAGES {
            let Some(last) = page.messages.last().map(|message| message.seq) else {
                return Ok(end);
            };
            end = Some(last);
            self.note_all(page);
            let next = Read::Since {
                seq: last,
                limit: PAGE,
            };
            page = self.client.pull(room, next).await?;
        }
        Ok(None)
    }

    fn note_all(&self, page: Pulled) {
        let held: Vec<_> = page.guard.iter().flatten().map(|mark| mark.seq).collect();
        let attention = self.listener.attention();
        for message in page.messages {
            let decision = self.judge(&attention, &message, held.contains(&message.seq));
            self.listener.tools.heard.note(message, decision);
        }
    }

    fn judge(
        &self,
        attention: &AttentionSettings,
        message: &StoredMessage,
        held: bool,
    ) -> Decision {
        let members = self.members.get(&message.room).copied();
        judge(&self.listener.tools, attention, members, message, held)
    }

    /// Rings for the oldest thing that may wake, when nothing else will bring it.
    fn ring_if_due(&mut self) {
        let tools = &self.listener.tools;
        let quiet = !tools.activity.at_work() && !tools.activity.waiting();
        if !quiet || !self.rings.is_empty() || !self.listener.ladder.can_wake() {
            return;
        }
        if let Some(turn) = self.ended.pop_front() {
            let bell = EndBell {
                tools: Arc::clone(tools),
                ladder: Arc::clone(&self.listener.ladder),
                attention: self.listener.attention(),
                turn,
            };
            self.rings.spawn(bell.ring());
            return;
        }
        while let Some((message, class)) = tools.heard.to_ring() {
            if let Some(holder) = tools.consumer.other(&message.room) {
                tracing::debug!(%holder, seq = message.seq, "not rung: another session acts here");
                // It may end before it has read this.
                tools.heard.try_later(message.seq);
                continue;
            }
            let bell = Bell {
                tools: Arc::clone(tools),
                ladder: Arc::clone(&self.listener.ladder),
                attention: self.listener.attention(),
                message,
                class,
            };
            self.rings.spawn(bell.ring());
            return;
        }
    }
}

/// The one decision, for pushes, for what was missed, and once more before a ring.
pub(crate) fn judge(
    tools: &Tools,
    attention: &AttentionSettings,
    members: Option<u32>,
    message: &StoredMessage,
    held: bool,
) -> Decision {
    let asked = tools.all_asked();
    tools.as_me(|me| {
        let receiver = Receiver {
            me: *me,
            attention,
            serves: &[],
            members,
            hub_id: None,
            asked: &asked,
            all_messages: false,
        };
        decide(message, &receiver, held)
    })
}

/// Fires when something that had to wait is to be rung for.
async fn due(tools: &Tools) {
    match tools.heard.next_due() {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
