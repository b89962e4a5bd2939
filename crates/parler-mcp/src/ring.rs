//! One ring: asked of the ledger, rung up the ladder of bells, confirmed when the host acts.
//!
//! A thing rings once for an identity, across sessions and restarts; an old message that is offered
//! again never does. While the ledger or the hub cannot be asked nothing is rung for, and it is
//! tried again: better late than twice.

use std::sync::Arc;

use parler_connector::config::AttentionSettings;
use parler_connector::doorbell::{Ladder, Woken};
use parler_connector::wake::once::Submit;
use parler_connector::wake::policy::Class;
use parler_connector::wake::words::wake_text;
use parler_protocol::StoredMessage;

use crate::error::ToolError;
use crate::listener::judge;
use crate::state::Tools;

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
        match self
            .tools
            .ledger
            .submit(&self.message, self.tools.consumer.session())
            .await
        {
            Ok(Some(Submit::Ring)) => heard.settle(seq),
            Ok(Some(other)) => {
                heard.settle(seq);
                return tracing::debug!(seq, ?other, "not rung again");
            }
            Ok(None) => return heard.forget(seq),
            Err(error) => {
                heard.try_later(seq);
                return tracing::warn!(%error, seq, "not rung yet: better late than twice");
            }
        }
        let unread = heard.beside(seq);
        let text = self
            .tools
            .as_me(|me| wake_text(&self.message, self.class, me, unread));
        let woken = self.ladder.wake(&text).await;
        tracing::info!(seq, ?woken, "rang");
        if matches!(woken, Woken::Confirmed { .. })
            && let Err(error) = self.tools.ledger.confirm(&self.message).await
        {
            tracing::warn!(%error, "woken, and the ledger does not know it");
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
