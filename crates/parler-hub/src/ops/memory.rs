//! `remember`, `recall`: what agents keep for later, privately or for a room.

use parler_protocol::{
    ErrorCode, Recall, RecallHit, Recalled, Remember, Remembered, RoomName, ServerFrame, limits,
};
use parler_store::{FactHit, Find, NewFact, RememberOutcome};

use super::{Caller, cap, cap_optional};
use crate::error::OpError;
use crate::now_ms;

/// Hits of one reply when no limit is given, and at most.
const LIMITS: (u32, u32) = (8, 50);

/// Keeps a fact.
pub async fn remember(caller: Caller, op: Remember) -> Result<ServerFrame, OpError> {
    cap_optional("key", op.fact.key.as_deref())?;
    cap_optional("room", op.fact.room.as_deref())?;
    cap_optional("embeddingModel", op.embedding_model.as_deref())?;
    let frame = serde_json::to_string(&op).unwrap_or_default();
    cap("fact", &frame, limits::MAX_MESSAGE_BYTES)?;
    check_embedding(op.embedding.as_deref())?;
    let max_keyed = caller.state.config().limits.max_keyed_facts;
    let room = op.fact.room;
    let fact = NewFact {
        author: caller.agent.id.clone(),
        room: room.as_deref().map(RoomName::new),
        key: op.fact.key,
        text: op.fact.text,
        embedding: op.embedding,
        embedding_model: op.embedding_model,
        max_keyed,
        now: now_ms(),
    };
    match caller.state.store().remember(fact).await? {
        RememberOutcome::Remembered => Ok(ServerFrame::Remembered(Remembered { ok: true })),
        RememberOutcome::NotMember => Err(OpError::not_member(&room.unwrap_or_default())),
        RememberOutcome::AtCapacity => Err(OpError::new(
            ErrorCode::AtCapacity,
            format!(
                "you keep {max_keyed} facts with a key, as many as an agent may: update one of \
                 them, or remember this without a key"
            ),
        )),
    }
}

/// Finds facts.
pub async fn recall(caller: Caller, op: Recall) -> Result<ServerFrame, OpError> {
    cap("query", &op.query, limits::MAX_QUERY_BYTES)?;
    cap_optional("room", op.room.as_deref())?;
    cap_optional("key", op.key.as_deref())?;
    check_embedding(op.embedding.as_deref())?;
    let find = match op.key.filter(|key| !key.is_empty()) {
        Some(key) => Find::Key(key),
        None => Find::Like {
            text: op.query,
            embedding: op.embedding,
        },
    };
    let recall = parler_store::Recall {
        agent: caller.agent.id.clone(),
        room: op.room.as_deref().map(RoomName::new),
        find,
        limit: op.limit.unwrap_or(LIMITS.0).min(LIMITS.1),
    };
    let hits = caller.state.store().recall(recall).await?;
    let hits = hits.ok_or_else(|| OpError::not_member(&op.room.unwrap_or_default()))?;
    let hits = (1..).zip(hits).map(|(rank, hit)| on_wire(rank, hit));
    Ok(ServerFrame::Recalled(Recalled {
        hits: hits.collect(),
    }))
}

fn on_wire(rank: u32, hit: FactHit) -> RecallHit {
    RecallHit {
        text: hit.text,
        key: hit.key,
        room: hit.room.map(RoomName::into),
        author: hit.author.into(),
        ts: hit.ts,
        score: hit.score,
        rank: Some(rank),
    }
}

/// Embeddings are compared with each other, so all have the same length, and none has a number that
/// nothing can be compared with: JSON has numbers that no float holds.
fn check_embedding(embedding: Option<&[f32]>) -> Result<(), OpError> {
    let Some(numbers) = embedding else {
        return Ok(());
    };
    let expected = limits::EMBEDDING_DIMENSIONS;
    if numbers.len() != expected {
        return Err(OpError::uncoded(format!(
            "embedding dimension mismatch: got {}, expected {expected}",
            numbers.len()
        )));
    }
    if numbers.iter().all(|number| number.is_finite()) {
        Ok(())
    } else {
        Err(OpError::bad_frame(
            "`embedding` has a number that does not fit into 32 bits",
        ))
    }
}
