//! Taking turns, keeping them, and letting go of them, by the hub's ledger.

use std::time::Duration;

use parler_connector::safe;
use parler_protocol::turn::{TurnAct, TurnsQuery};
use parler_protocol::{Complete, TaskStatus, Turn};
use tokio::time::{sleep, timeout};

use crate::error::ToolError;
use crate::state::Tools;
use crate::turns::{Held, held, hop_after, name};

/// How often leases are renewed: a third of the hub's default of 300 s.
const RENEW_EVERY: Duration = Duration::from_secs(100);
/// A session that called none of our tools for so long holds nothing for ever.
const IDLE_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long the last word on held turns may take at the end.
const LAST_WORD: Duration = Duration::from_millis(500);
/// What is noted with a turn that was not ended when its agent was.
const SESSION_ENDED: &str = "its agent's session ended";
/// What is noted with a turn that ends because its holder replied to it.
const ANSWERED: &str = "answered";

/// What came of taking a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Held now, under this fencing token.
    Yes(i64),
    /// Somebody else has it, whose name this is, or nobody can have it any more.
    No(Option<String>),
}

impl Tools {
    /// Asks the ledger; `None` where the hub has none.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn ledger_turns(
        &self,
        query: TurnsQuery,
    ) -> Result<Option<Vec<Turn>>, ToolError> {
        if self.turns.no_ledger() {
            return Ok(None);
        }
        let asked = self
            .agent
            .call(|client| {
                let query = query.clone();
                async move { client.turns(query).await }
            })
            .await;
        match asked {
            Ok(turns) => Ok(Some(turns.turns)),
            // A refusal of one turn's id says nothing about the hub.
            Err(error) if error.unsupported() && query.message.is_none() => {
                self.turns.has_no_ledger();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a turn, and holds it from then on.
    ///
    /// # Errors
    /// The hub's.
    pub(crate) async fn take(&self, turn: &Turn) -> Result<Taken, ToolError> {
        let (room, message) = (&turn.room, &turn.message);
        self.turns.claiming(room, message);
        let claimed = self
            .agent
            .call(|client| async move { client.claim_turn(room, message, None).await })
            .await;
        // Where no answer came the turn may be taken all the same: it is given back at the end.
        if claimed.as_ref().err().is_none_or(|error| !error.passes()) {
            self.turns.claim_answered(message);
        }
        let claimed = claimed?;
        if !claimed.claimed {
            return Ok(Taken::No(claimed.holder.map(|holder| holder.name)));
        }
        let take = claimed.take.unwrap_or(turn.take.saturating_add(1));
        self.adopt(held(turn, take), turn).await;
        Ok(Taken::Yes(take))
    }

    /// Holds a turn that this agent has by the ledger.
    pub(crate) async fn adopt(&self, held: Held, turn: &Turn) {
        let (known, id) = (self.turns.holds(&held.message), held.message.clone());
        self.turns.hold(held.clone());
        self.turns.claim_answered(&id);
        // Where it stands in a chain is in its message; held it is in any case.
        if !known && let Some(message) = self.offer_of(turn).await {
            let hop = Some(hop_after(&message));
            if self.turns.holds(&id) {
                self.turns.hold(Held { hop, ..held });
            }
        }
    }

    /// Gives a held turn back.
    ///
    /// # Errors
    /// The hub's; it is held still.
    pub(crate) async fn give_back(&self, held: &Held, note: &str) -> Result<bool, ToolError> {
        let act = TurnAct {
            room: held.room.clone(),
            message: held.message.clone(),
            take: Some(held.take),
            note: Some(note.to_owned()),
        };
        let released = self.release(act).await?;
        self.turns.forget(&held.message);
        Ok(released)
    }

    async fn release(&self, act: TurnAct) -> Result<bool, ToolError> {
        self.agent
            .call(|client| {
                let act = act.clone();
                async move { client.release_turn(act).await }
            })
            .await
    }

    /// Ends a held turn.
    ///
    /// # Errors
    /// The hub's; it is held still.
    pub(crate) async fn finish(
        &self,
        held: &Held,
        status: TaskStatus,
        note: Option<String>,
        result: Option<String>,
    ) -> Result<bool, ToolError> {
        let end = Complete {
            room: held.room.clone(),
            message: held.message.clone(),
            status,
            take: Some(held.take),
            note,
            result,
        };
        let done = self
            .agent
            .call(|client| {
                let end = end.clone();
                async move { client.complete_turn(end).await }
            })
            .await?;
        self.turns.forget(&held.message);
        Ok(done)
    }

    /// Renews the leases of held turns for as long as the agent works. Runs until it is dropped.
    pub(crate) async fn renew_leases(&self) {
        loop {
            sleep(RENEW_EVERY).await;
            let idle = self
                .activity
                .last()
                .is_none_or(|last| last.elapsed() > IDLE_LIMIT);
            if idle && !self.activity.at_work() && !self.activity.waiting() {
                continue;
            }
            for held in self.turns.held() {
                self.renew(&held).await;
            }
        }
    }

    async fn renew(&self, held: &Held) {
        let renewed = self
            .agent
            .call(|client| async move {
                client
                    .renew_turn(&held.room, &held.message, held.take, None)
                    .await
            })
            .await;
        let now = match renewed {
            Ok(claimed) if claimed.claimed => return,
            Ok(claimed) => claimed
                .holder
                .map(|holder| format!("{} holds it now", name(&holder.name))),
            Err(error) if error.passes() => {
                return tracing::debug!(%error, "a lease was not renewed");
            }
            Err(_) => None,
        };
        // It may have been ended while the hub was asked.
        if !self.turns.holds(&held.message) {
            return;
        }
        self.turns.forget(&held.message);
        self.note(format!(
            "You lost the turn of {} (message {}): {}. Do not finish it.",
            held.from,
            safe::token(&held.message),
            now.unwrap_or("it is not yours any more".to_owned())
        ));
    }

    /// The session ends: what was answered is done, the rest is open again.
    pub(crate) async fn let_go_of_turns(&self) {
        let let_go = async {
            for held in self.turns.held() {
                let done = if held.answered {
                    self.finish(&held, TaskStatus::Done, Some(ANSWERED.to_owned()), None)
                        .await
                } else {
                    self.give_back(&held, SESSION_ENDED).await
                };
                if let Err(error) = done {
                    tracing::debug!(%error, "a turn stays taken until its lease ends");
                }
            }
            for (room, message) in self.turns.unanswered_claims() {
                let act = TurnAct {
                    room,
                    message,
                    take: None,
                    note: Some(SESSION_ENDED.to_owned()),
                };
                if let Err(error) = self.release(act).await {
                    tracing::debug!(%error, "a turn may stay taken until its lease ends");
                }
            }
        };
        let _ = timeout(LAST_WORD, let_go).await;
    }
}
