//! What a watcher sees of a message: who said what in words, and of everything else only that it
//! is there.

use parler_protocol::clean;
use parler_protocol::parts::{
    BUNDLE_KIND, BundleRef, FILE_KIND, FileRef, OBSERVATION_KIND, SIG_KIND, TypedPart,
};
use parler_protocol::{Part, StoredMessage};
use serde::Serialize;
use serde_json::{Value, json};

/// Characters of a tool's name that are shown.
const MAX_TOOL_NAME: usize = 120;

/// A message as a watcher sees it.
#[derive(Serialize)]
pub struct Shown {
    seq: i64,
    ts: i64,
    from: Author,
    parts: Vec<Value>,
}

#[derive(Serialize)]
struct Author {
    name: String,
    role: Option<String>,
}

impl Shown {
    /// Without ids, mentions, references and signatures.
    pub fn of(message: StoredMessage) -> Shown {
        Shown {
            seq: message.seq,
            ts: message.ts,
            from: Author {
                name: message.from.name,
                role: message.from.role,
            },
            parts: message.parts.iter().filter_map(part).collect(),
        }
    }
}

/// One part; `None`: not shown.
fn part(part: &Part) -> Option<Value> {
    let kind = match part {
        Part::Text { text } => return Some(json!({ "kind": "text", "text": text })),
        Part::Data { .. } => return Some(json!({ "kind": "data" })),
        Part::Extension { kind, .. } => kind.as_str(),
    };
    let file = |file: Option<Value>| match file {
        Some(file) => json!({ "kind": kind, "file": file }),
        None => json!({ "kind": kind }),
    };
    match kind {
        SIG_KIND => None,
        BUNDLE_KIND => Some(file(typed::<BundleRef>(part))),
        FILE_KIND => Some(file(typed::<FileRef>(part))),
        OBSERVATION_KIND => Some(match tool(part) {
            Some(tool) => json!({ "kind": kind, "fields": { "tool_name": tool } }),
            None => json!({ "kind": kind }),
        }),
        _ => Some(json!({ "kind": kind })),
    }
}

/// The known fields of a well-formed part.
fn typed<T: TypedPart>(part: &Part) -> Option<Value> {
    T::from_part(part).and_then(|typed| serde_json::to_value(typed).ok())
}

/// The tool of an observation. What went in and came out of it stays in the room.
fn tool(part: &Part) -> Option<String> {
    let Part::Extension { fields, .. } = part else {
        return None;
    };
    let name = fields.get("tool_name")?.as_str()?;
    Some(clean::name(name).chars().take(MAX_TOOL_NAME).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(part_json: Value) -> Option<Value> {
        part(&serde_json::from_value(part_json).unwrap())
    }

    #[test]
    fn an_observation_shows_the_tool_and_nothing_of_its_work() {
        let seen = shown(json!({
            "kind": OBSERVATION_KIND, "type": "tool", "tool_name": "Bash\u{1b}[31m",
            "tool_input": {"command": "cat secret"}, "tool_output": "hunter2", "status": "success",
        }));
        let want = json!({ "kind": OBSERVATION_KIND, "fields": { "tool_name": "Bash[31m" } });
        assert_eq!(seen, Some(want));
        let odd = shown(json!({ "kind": OBSERVATION_KIND, "tool_name": 5, "tool_output": "x" }));
        assert_eq!(odd, Some(json!({ "kind": OBSERVATION_KIND })));
    }

    #[test]
    fn signatures_are_left_out_and_unknown_parts_are_named() {
        assert_eq!(shown(json!({ "kind": SIG_KIND, "sig": "x" })), None);
        assert_eq!(
            shown(json!({ "kind": "org.x", "secret": 1 })),
            Some(json!({ "kind": "org.x" }))
        );
    }
}
