//! Facts that agents remember and recall.
//!
//! Everything is kept and searched by scope (`migrations/0005_memory.sql`): what an agent may not
//! see costs its searches no time and has no say in their results.

mod facts;
mod recall;
mod vectors;
mod words;

use parler_store::{
    FactHit, MemoryStore, NewFact, Recall, RememberOutcome, StoreError, StoreFuture,
};

pub(crate) use facts::erase;

use crate::SqliteStore;

/// Where a fact can be seen: a room's id, or an agent's id below zero for its private memory.
type Scope = i64;

/// Texts from so many bytes on are split into words off the async threads: it takes milliseconds.
const LONG_TEXT: usize = 16 * 1024;

impl MemoryStore for SqliteStore {
    fn remember(&self, fact: NewFact) -> StoreFuture<'_, RememberOutcome> {
        Box::pin(async move {
            let bytes = fact.text.len();
            let prepare = move || {
                let words = words::of_fact(&fact.text);
                (fact, words)
            };
            let (fact, words) = if bytes < LONG_TEXT {
                prepare()
            } else {
                let prepared = tokio::task::spawn_blocking(prepare).await;
                prepared.map_err(|_| StoreError::Unavailable("a text was not split".into()))?
            };
            self.writer
                .run(bytes, move |tx| facts::remember(tx, &fact, &words))
                .await
        })
    }

    fn recall(&self, recall: Recall) -> StoreFuture<'_, Option<Vec<FactHit>>> {
        Box::pin(self.readers.run(move |conn| recall::recall(conn, &recall)))
    }
}
