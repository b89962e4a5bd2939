//! Remembering facts and recalling them.

use parler_protocol::{ClientFrame, Fact, Recall, RecallHit, Remember, ServerFrame};

use crate::call::unexpected;
use crate::{Client, ClientError};

impl Client {
    /// Keeps a fact: for a room, or without one in this agent's private memory. With a key it
    /// replaces this agent's fact of that key there.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::AtCapacity`] when there are as many facts with
    /// keys as there may be.
    pub async fn remember(&self, fact: Fact) -> Result<(), ClientError> {
        self.remember_at(fact, None, None).await
    }

    /// As [`Client::remember`], with where the fact lies among others: 768 numbers, and what made
    /// them.
    ///
    /// # Errors
    /// As [`Client::remember`]; a refusal without a code for another number of numbers.
    pub async fn remember_at(
        &self,
        fact: Fact,
        embedding: Option<Vec<f32>>,
        embedding_model: Option<String>,
    ) -> Result<(), ClientError> {
        let remember = Remember {
            fact,
            embedding,
            embedding_model,
        };
        match self.request(ClientFrame::Remember(remember)).await? {
            ServerFrame::Remembered(_) => Ok(()),
            other => Err(unexpected("remember", &other)),
        }
    }

    /// Finds facts, the best first; which way their scores point depends on what was asked. Their
    /// texts and keys were written by whoever is in the room.
    ///
    /// # Errors
    /// As [`Client::remember_at`].
    pub async fn recall(&self, recall: Recall) -> Result<Vec<RecallHit>, ClientError> {
        let room = recall.room.clone();
        match self.request(ClientFrame::Recall(recall)).await? {
            ServerFrame::Recalled(mut reply) => {
                if room.is_some() {
                    reply.hits.retain(|hit| hit.room == room);
                }
                Ok(reply.hits)
            }
            other => Err(unexpected("recall", &other)),
        }
    }
}
