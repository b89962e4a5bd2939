//! One ring: asked of the ledger, rung up the ladder of bells, confirmed when the host acts.
//!
//! A thing rings once for an identity, across sessions and restarts; an old message that is offered
//! again never does. While the ledger or the hub cannot be asked nothing is rung for, and it is
//! tried again: better late than twice.

use std::sync::Arc;
use std::time::Duration;

use parler_connector::config::{AttentionSettings, RoomAttention};
use parler_connector::doorbell::{Ladder, Woken};
use parler_connector::render;
use parler_connector::wake::ledger::{self, TurnWake};
use parler_connector::wake::once::Submit;
use parler_connector::wake::policy::Class;
use parler_connector::wake::words::wake_text;
use parler_protocol::turn::{TurnFilter, TurnsQuery};
use parler_protocol::{Attention, StoredMessage, Turn};
use tokio::time::{Instant, sleep, timeout};

use crate::error::ToolError;
use crate::holding::Taken;
use crate::ledger::AT_THE_END;
use crate::listener::judge;
use crate::state::Tools;
use crate::turns::{Held, end_text, held};

/// The longest that a host may take to wake for a turn that was taken ahead: then somebody else
/// may have it.
const MAX_RINGING: Duration = Duration::from_secs(120);

/// Whether to ring.
enum Claim {
    /// Yes, for that take; `held` was taken for it.
    Ring { take: i64, held: Option<Held> },
    /// No, for good.
    Settled(&'static str),
    /// Not now.
    Later(&'static str),
    /// It is an old message offered again.
    Replay,
}

/// One ring for one message.
pub(crate) struct Bell {
    pub(crate) tools: Arc<Tools>,
    pub(crate) ladder: Arc<Ladder>,
    pub(crate) attention: AttentionSettings,
    pub(crate) message: Arc<StoredMessage>,
    pub(crate) class: Class,
}

impl Bell {
    /// Rings, if the thing may still be rung for, and waits for the host to act.
    pub(crate) async fn ring(self) {
        let (heard, seq) = (&self.tools.heard, self.message.seq);
        if self.class == Class::Ambient {
            match self.still_a_pair().await {
                Ok(true) => {}
                Ok(false) => {
                    heard.settle(seq);
                    return tracing::debug!(seq, "not rung: others came in");
                }
                Err(error) => {
                    heard.try_later(seq);
                    return tracing::debug!(%error, seq, "not rung yet");
                }
            }
        }
        let (take, held) = match self.claim().await {
            Ok(Claim::Ring { take, held }) => (take, held),
            Ok(Claim::Settled(why)) => {
                heard.settle(seq);
                return tracing::debug!(seq, why, "not rung");
            }
            Ok(Claim::Later(why)) => {
                heard.try_later(seq);
                return tracing::debug!(seq, why, "not rung yet");
            }
            Ok(Claim::Replay) => return heard.forget(seq),
            Err(error) => {
                heard.try_later(seq);
                return tracing::debug!(%error, seq, "not rung yet");
            }
        };
        let session = self.tools.consumer.session();
        match self
            .tools
            .ledger
            .submit(&self.message, take, session.clone())
            .await
        {
            Ok(Some(Submit::Ring)) => heard.settle(seq),
            outcome => {
                if let Some(held) = &held {
                    self.give_back(held, "not rung for").await;
                }
                return match outcome {
                    Ok(Some(other)) => {
                        heard.settle(seq);
                        tracing::debug!(seq, ?other, "not rung again");
                    }
                    Ok(None) => heard.forget(seq),
                    Err(error) => {
                        heard.try_later(seq);
                        tracing::warn!(%error, seq, "not rung yet: better late than twice");
                    }
                };
            }
        }
        let unread = heard.beside(seq);
        let text = self
            .tools
            .as_me(|me| wake_text(&self.message, self.class, me, unread));
        let woken = timeout(MAX_RINGING, self.ladder.wake(&text)).await;
        tracing::info!(seq, ?woken, "rang");
        if matches!(woken, Ok(Woken::Confirmed { .. })) {
            self.tools.turns.rung_for(&self.message);
            if let Err(error) = self.tools.ledger.confirm(&self.message.id, take).await {
                tracing::warn!(%error, "woken, and the ledger does not know it");
            }
        } else if let Some(held) = &held {
            // First: who gave a turn back hears of it as of a new one.
            if let Err(error) = self.tools.ledger.give_up(&held.message, session).await {
                tracing::warn!(%error, "it may be taken ahead once more");
            }
            self.give_back(held, "host did not wake").await;
        }
    }

    /// What the hub's ledger says of the message's turn. One that others may take as well is taken
    /// before the host is woken: only who has it rings.
    async fn claim(&self) -> Result<Claim, ToolError> {
        let ring = |take| Ok(Claim::Ring { take, held: None });
        if self.class != Class::Turn {
            return ring(0);
        }
        let Some(turn) = self.turn().await? else {
            return ring(0);
        };
        let me = self.tools.agent.id();
        if turn.taken_by.as_ref().is_some_and(|by| by.id == me) {
            let turns = &self.tools.turns;
            let unknown = turns.holds(&turn.message) && !turns.was_shown(&turn.message, turn.take);
            return Ok(match unknown {
                // Taken for a ring that a call of the model came before.
                true => Claim::Ring {
                    take: turn.take,
                    held: Some(held(&turn, turn.take)),
                },
                false => Claim::Settled("this agent works at the turn"),
            });
        }
        match ledger::wakes(&turn, &me) {
            TurnWake::No => return Ok(Claim::Settled("the turn is held or over")),
            TurnWake::Wake => return ring(turn.take),
            TurnWake::TakeFirst => {}
        }
        if !render::proven(&self.message, &me) {
            return Ok(Claim::Settled("nobody proved who wrote it"));
        }
        let session = self.tools.consumer.session();
        let next = turn.take.saturating_add(1);
        match self
            .tools
            .ledger
            .would_ring(&self.message, next, session)
            .await
        {
            Ok(Some(Submit::Ring)) => {}
            Ok(Some(_)) => {
                return Ok(Claim::Settled(
                    "this session gave it up, or was rung for it",
                ));
            }
            Ok(None) => return Ok(Claim::Replay),
            Err(error) => {
                tracing::warn!(%error, "the ledger of rings cannot be used");
                return Ok(Claim::Later("better late than twice"));
            }
        }
        let begun = Instant::now();
        // Rung for is only who is idle.
        sleep(ledger::hesitation(&turn, true, fastrand::f64())).await;
        if self.acted_since(begun) {
            return Ok(Claim::Later("the model is at work"));
        }
        match self.tools.take(&turn).await {
            // It is kept: the model may have been shown it.
            Ok(Taken::Yes(_)) if self.acted_since(begun) => {
                Ok(Claim::Later("the model is at work"))
            }
            Ok(Taken::Yes(take)) => Ok(Claim::Ring {
                take,
                held: Some(held(&turn, take)),
            }),
            Ok(Taken::No(_)) => Ok(Claim::Settled("somebody else has the turn")),
            Err(error) if error.passes() => Err(error),
            Err(_) => Ok(Claim::Settled("this agent may not take the turn")),
        }
    }

    /// Whether the model called a tool since, or does: a ring now would not be what it answers.
    fn acted_since(&self, then: Instant) -> bool {
        let activity = &self.tools.activity;
        activity.at_work() || activity.waiting() || activity.last().is_some_and(|at| at > then)
    }

    async fn turn(&self) -> Result<Option<Turn>, ToolError> {
        let query = TurnsQuery {
            room: Some(self.message.room.clone()),
            message: Some(self.message.id.clone()),
            state: Some(TurnFilter::All),
            ..TurnsQuery::default()
        };
        let turns = self.tools.ledger_turns(query).await?;
        Ok(turns.and_then(|turns| turns.into_iter().next()))
    }

    async fn give_back(&self, held: &Held, note: &str) {
        if let Err(error) = self.tools.give_back(held, note).await {
            tracing::warn!(%error, "the turn stays taken until its lease ends");
            // And is not renewed until then.
            self.tools.turns.forget(&held.message);
        }
    }

    /// Whether an ordinary message still may ring. It does in a session of two, and how many there
    /// are was asked a moment ago, in which a third one may have come.
    async fn still_a_pair(&self) -> Result<bool, ToolError> {
        let rooms = self
            .tools
            .agent
            .call(|client| async move { client.rooms().await })
            .await?;
        let members = rooms
            .into_iter()
            .find(|room| room.name == self.message.room)
            .map(|room| room.members);
        let decision = judge(&self.tools, &self.attention, members, &self.message, false);
        Ok(decision.wakes().is_some())
    }
}

/// One ring for the end of a turn that this agent offered.
pub(crate) struct EndBell {
    pub(crate) tools: Arc<Tools>,
    pub(crate) ladder: Arc<Ladder>,
    pub(crate) attention: AttentionSettings,
    pub(crate) turn: Turn,
}

impl EndBell {
    /// Rings, if the host was not told of that end before and its user wants to hear of such.
    pub(crate) async fn ring(self) {
        let muted = self.attention.room(&self.turn.room) == Some(RoomAttention::Muted);
        if muted || self.attention.mode == Some(Attention::Focus) {
            return;
        }
        let session = self.tools.consumer.session();
        match self
            .tools
            .ledger
            .submit_end(&self.turn.message, session)
            .await
        {
            Ok(Submit::Ring) => {}
            Ok(_) => return,
            Err(error) => return tracing::warn!(%error, "the end of a turn is not rung for"),
        }
        let woken = self.ladder.wake(&end_text(&self.turn)).await;
        tracing::info!(turn = self.turn.seq, ?woken, "rang for the end of a turn");
        if matches!(woken, Woken::Confirmed { .. })
            && let Err(error) = self
                .tools
                .ledger
                .confirm(&self.turn.message, AT_THE_END)
                .await
        {
            tracing::warn!(%error, "woken, and the ledger does not know it");
        }
    }
}
