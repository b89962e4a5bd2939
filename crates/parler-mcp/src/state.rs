//! What the tools work on: the agent, its session, its inbox, and what was heard meanwhile.
//!
//! A plain struct that knows no MCP. [`Tools::call`] runs one tool within its time and puts the
//! answer together: what cannot wait first, then the answer, then one line about what is unread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parler_connector::render::{self, Me, Voice};
use parler_connector::{Outgoing, safe};
use parler_protocol::{HandoffRef, Sent, StoredMessage, Target, TypedPart};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::activity::Activity;
use crate::agent::Agent;
use crate::consumer::Consumer;
use crate::error::ToolError;
use crate::heard::Heard;
use crate::inbox::{Batch, Inbox};
use crate::ledger::Ledger;
use crate::session::Session;
use crate::text;
use crate::tools::{CallContext, Reply, Tool};
use crate::turns::Turns;

/// The longest that a call is held, with room for the answer to get out within 50 s.
const CALL_LIMIT: Duration = Duration::from_secs(49);
/// How long a call that is under way may go on when the host is gone.
const CLOSING_GRACE: Duration = Duration::from_millis(800);
/// How long a call waits for the session that is joined at the start.
const STARTUP_WAIT: Duration = Duration::from_secs(10);
/// Ids of handoffs whose end is listened for.
const MAX_ASKED: usize = 256;
/// Notes that wait for the next answer.
const MAX_NOTES: usize = 8;

/// Everything behind the tools.
pub(crate) struct Tools {
    pub(crate) agent: Agent,
    pub(crate) session: Session,
    pub(crate) inbox: Inbox,
    pub(crate) heard: Heard,
    pub(crate) activity: Arc<Activity>,
    pub(crate) consumer: Consumer,
    pub(crate) ledger: Ledger,
    pub(crate) turns: Turns,
    /// Nothing is cut.
    pub(crate) verbose: bool,
    notes: Mutex<VecDeque<String>>,
    asked: Mutex<VecDeque<String>>,
    /// Whether a session is being joined at the start.
    starting: watch::Sender<bool>,
}

/// A finished call.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) failed: bool,
    /// To be consumed when the text was written, to be put back when it was not.
    pub(crate) batch: Option<Batch>,
}

impl Tools {
    pub(crate) fn new(
        agent: Agent,
        session: Session,
        consumer: Consumer,
        ledger: Ledger,
        activity: Arc<Activity>,
        turns: Turns,
        verbose: bool,
    ) -> Self {
        Tools {
            agent,
            session,
            inbox: Inbox::default(),
            heard: Heard::default(),
            activity,
            consumer,
            ledger,
            turns,
            verbose,
            notes: Mutex::default(),
            asked: Mutex::default(),
            starting: watch::Sender::new(false),
        }
    }

    /// Runs one tool. Dropping the call consumes nothing.
    pub(crate) async fn call(
        &self,
        tool: &Tool,
        args: Map<String, Value>,
        cx: &CallContext,
    ) -> Answer {
        let _call = self.activity.call();
        let gone = async {
            cx.closing.cancelled().await;
            sleep(CLOSING_GRACE).await;
        };
        let outcome = tokio::select! {
            outcome = timeout(CALL_LIMIT, (tool.run)(self, args, cx)) => outcome
                .unwrap_or(Err(ToolError::TooSlow(CALL_LIMIT.as_secs()))),
            () = gone => Err(ToolError::Closing),
        };
        self.answer(outcome)
    }

    fn answer(&self, outcome: Result<Reply, ToolError>) -> Answer {
        let failed = outcome.is_err();
        let reply = outcome.unwrap_or_else(|error| Reply::text(format!("error: {error}")));
        if let Some(batch) = &reply.batch {
            self.heard.showing(&batch.pulled.room, batch.end());
        }
        let mut lines = Vec::new();
        // An error's text begins with `error: `, whatever else is to be said.
        let (lead, notes) = (reply.banner, self.take_notes());
        if failed {
            lines.push(reply.body);
            lines.extend(notes);
        } else {
            lines.extend(lead);
            lines.extend(notes);
            lines.push(reply.body);
        }
        lines.extend(self.heard.line(self.session.active().as_deref()));
        Answer {
            text: lines.join("\n"),
            failed,
            batch: reply.batch,
        }
    }

    /// The answer was written: what it showed counts as read.
    pub(crate) async fn written(&self, batch: Batch) {
        if batch.set_back {
            self.heard.set_back(&batch.pulled.room);
        }
        self.heard.read(&batch.pulled.room, batch.end());
        if let Some(holder) = self.consumer.other(&batch.pulled.room) {
            tracing::info!(%holder, "shown only: another session reads this room");
            return;
        }
        batch.consume().await;
    }

    /// The answer was not written: what it would have shown is unread.
    pub(crate) fn put_back(&self, batch: &Batch) {
        self.heard.not_shown(&batch.pulled.room);
    }

    /// Reads what is unread in a room.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn unread(&self, room: &str, limit: u32) -> Result<Batch, ToolError> {
        self.agent
            .call(|client| async move { self.inbox.unread(&client, room, limit).await })
            .await
    }

    /// Sends a message. Said in a room in which this agent holds exactly one turn, it is an answer
    /// to that: a handoff passes the turn on and ends it, unless the turn is to be `kept`.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn send(&self, mut message: Outgoing, kept: bool) -> Result<Sent, ToolError> {
        let held = match &message.target {
            Target::Room { room } if !kept && message.reply_to.is_none() => {
                self.turns.only_in(room)
            }
            _ => None,
        };
        if let Some(held) = &held {
            message.reply_to = Some(held.message.clone());
        }
        message.hop = message.hop.or_else(|| self.turns.hop());
        let sent = self
            .agent
            .call(|client| {
                let message = message.clone();
                async move { client.send(message).await }
            })
            .await?;
        if let Some(held) = held {
            match HandoffRef::find(&message.parts) {
                Some(_) => self.turns.forget(&held.message),
                None => self.turns.answered(&held.message),
            }
        }
        Ok(sent)
    }

    /// The room that was named, else the active one; waits while one is being joined, which may be
    /// the one that was named.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn room(&self, named: Option<&str>) -> Result<String, ToolError> {
        if self.session.active().is_none() {
            let mut starting = self.starting.subscribe();
            let settled = timeout(STARTUP_WAIT, starting.wait_for(|starting| !starting)).await;
            if settled.is_err() && named.is_none() {
                return Err(ToolError::refused(
                    "the session that PARLER_SESSION_KEY names is still being joined: its hub is \
                     away, or its owner has to decide. Call again in a moment",
                ));
            }
        }
        self.session.room(named)
    }

    /// A session is being joined at the start, or no longer.
    pub(crate) fn starting(&self, starting: bool) {
        self.starting.send_replace(starting);
    }

    /// Makes a room the active session.
    pub(crate) fn enter(&self, room: &str) {
        self.consumer.claim(room);
        self.session.set(Some(room));
    }

    /// Ends the active session.
    pub(crate) fn leave(&self) {
        self.session.set(None);
        self.consumer.let_go();
        self.heard.clear();
    }

    /// To be told with the next answer.
    pub(crate) fn note(&self, note: impl Into<String>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push_back(note.into());
        if notes.len() > MAX_NOTES {
            notes.pop_front();
        }
    }

    fn take_notes(&self) -> VecDeque<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// This agent offered a turn with that message: how it ends is for it.
    pub(crate) fn asked(&self, message: &str) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push_back(message.to_owned());
        if asked.len() > MAX_ASKED {
            asked.pop_front();
        }
    }

    /// Ids of the turns that this agent offered.
    pub(crate) fn all_asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().cloned().collect()
    }

    /// Runs something that wants to know who reads.
    pub(crate) fn as_me<T>(&self, run: impl FnOnce(&Me<'_>) -> T) -> T {
        let (id, name, role) = (self.agent.id(), self.agent.name(), self.agent.role());
        run(&Me {
            id: &id,
            name: &name,
            role: role.as_deref(),
        })
    }

    /// What leads an answer that shows these messages: the turns in them that are for this agent.
    pub(crate) async fn banner(
        &self,
        messages: &[StoredMessage],
        voice: &Voice<'_>,
    ) -> Option<String> {
        let replays = self.old_ones(messages).await;
        self.as_me(|me| {
            render::banner_where(messages, me, voice, |message| {
                !replays.contains(&message.seq)
            })
        })
    }

    /// Who this agent is, for its own model.
    pub(crate) fn introduction(&self) -> String {
        let (id, name, role) = (self.agent.id(), self.agent.name(), self.agent.role());
        format!("You are {}.", text::who(&name, role.as_deref(), &id))
    }

    /// A room as answers call it.
    pub(crate) fn call_room(&self, room: &str) -> String {
        let word = if self.session.active().as_deref() == Some(room) {
            "session"
        } else {
            "room"
        };
        format!("{word} '{}'", safe::token(room))
    }
}
