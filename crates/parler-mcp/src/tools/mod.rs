//! The tools: a list, one file a family.
//!
//! A tool is a name, words for the model, a schema that comes from its argument type, and a
//! function over the state. Nothing here knows MCP; `server.rs` puts the list behind it.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ToolError;
use crate::inbox::Batch;
use crate::state::Tools;

mod handoff;
mod messages;
mod rooms;
mod sessions;
mod target;
mod turns;

pub(crate) use sessions::{arrive, code_of};

/// All tools, in the order in which they are listed.
pub(crate) const TOOLS: &[Tool] = &[
    sessions::OPEN,
    sessions::JOIN,
    sessions::CLOSE,
    messages::SEND,
    messages::RECV,
    handoff::HANDOFF,
    turns::TURN,
    rooms::ROOMS,
    rooms::ROSTER,
];

/// A tool's answer while it is made.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<Reply, ToolError>> + Send + 'a>>;

/// One tool.
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its name for a person.
    pub(crate) title: &'static str,
    /// What it does, with an example, for a model.
    pub(crate) about: &'static str,
    /// What a call changes.
    pub(crate) effect: Effect,
    /// Schema of the arguments.
    pub(crate) schema: fn() -> Map<String, Value>,
    /// Does it.
    pub(crate) run: for<'a> fn(&'a Tools, Map<String, Value>, &'a CallContext) -> Running<'a>,
}

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// Moves what is unread; nothing for others.
    Consumes,
    /// Others see something new.
    Adds,
}

/// What a call knows about the one who called.
pub(crate) struct CallContext {
    /// How to say that a wait goes on; `None` when nobody asked for it.
    pub(crate) progress: Option<Arc<dyn Progress>>,
    /// Fires when the host is gone.
    pub(crate) closing: CancellationToken,
    /// When the call began.
    pub(crate) started: Instant,
}

/// Says that a wait goes on.
pub(crate) trait Progress: Send + Sync {
    /// `done` of `of` seconds.
    fn tell(&self, done: f64, of: f64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// What a tool answers.
#[derive(Default)]
pub(crate) struct Reply {
    /// Comes first: what is for this agent and cannot wait.
    pub(crate) banner: Option<String>,
    /// The answer.
    pub(crate) body: String,
    /// Counts as read once the answer was written.
    pub(crate) batch: Option<Batch>,
}

impl Reply {
    /// An answer that shows no messages.
    pub(crate) fn text(body: impl Into<String>) -> Self {
        Reply {
            body: body.into(),
            ..Reply::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::complaints;

    #[test]
    fn every_tool_has_a_plain_schema_and_an_example() {
        for tool in TOOLS {
            let schema = Value::Object((tool.schema)());
            assert_eq!(complaints(&schema, tool.name), Vec::<String>::new());
            assert_eq!(schema["type"], "object");
            assert!(tool.name.starts_with("parler_"));
            let properties = schema["properties"].as_object().unwrap();
            assert!(
                properties.is_empty() || tool.about.contains('{'),
                "{}",
                tool.name
            );
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}.{name}", tool.name);
            }
        }
    }

    #[test]
    fn the_example_of_a_tool_names_only_arguments_that_it_has() {
        for tool in TOOLS {
            let schema = (tool.schema)();
            let Some(at) = tool.about.find('{') else {
                continue;
            };
            let mut stream = serde_json::Deserializer::from_str(&tool.about[at..]).into_iter();
            let example: Map<String, Value> = stream.next().unwrap().unwrap();
            for key in example.keys() {
                assert!(
                    schema["properties"].get(key).is_some(),
                    "{}: {key}",
                    tool.name
                );
            }
            for key in schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                assert!(
                    example.contains_key(key.as_str().unwrap()),
                    "{}: {key}",
                    tool.name
                );
            }
        }
    }
}
