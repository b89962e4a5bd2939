//! `com.parler.observation`: what a host's hook saw after a tool call (field names in snake_case).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TypedPart;

/// Kind of [`Observation`].
pub const OBSERVATION_KIND: &str = "com.parler.observation";

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Always `tool`.
    #[serde(rename = "type")]
    pub what: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: Value,
    /// What it answered, cut at 2000 bytes.
    pub tool_output: String,
    /// `success` or `failure`.
    pub status: String,
}

impl TypedPart for Observation {
    const KIND: &'static str = OBSERVATION_KIND;
}
