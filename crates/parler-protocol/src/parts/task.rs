//! `com.parler.task`: how a piece of work goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TypedPart;

/// Kind of [`Task`].
pub const TASK_KIND: &str = "com.parler.task";

/// Where a piece of work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Taken on.
    Accepted,
    /// In work.
    Working,
    /// Waits for something.
    Awaiting,
    /// Finished well.
    Done,
    /// Finished badly.
    Failed,
    /// Given up.
    Cancelled,
}

impl TaskStatus {
    /// Whether nothing follows: `done`, `failed`, `cancelled`.
    #[must_use]
    pub fn terminal(self) -> bool {
        matches!(
            self,
            TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled
        )
    }
}

/// A status update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Where it stands.
    pub status: TaskStatus,
    /// Correlates updates: the request's message id, or chosen by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Words for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Blob id of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Model tokens spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

impl TypedPart for Task {
    const KIND: &'static str = TASK_KIND;
}
