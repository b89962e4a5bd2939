//! The JSON of a stored message, put together once: fields in the wire's order, parts verbatim.
//!
//! Everything behind `seq` is written by whoever appends, before the writer's queue; the writer,
//! which alone knows the `seq`, only puts it in front.

use std::sync::Arc;

/// A message without its place.
pub(crate) struct Envelope<'a> {
    pub id: &'a str,
    pub room: &'a str,
    pub author: &'a str,
    pub name: &'a str,
    pub role: Option<&'a str>,
    /// A JSON array.
    pub parts: &'a str,
    /// A JSON array.
    pub mentions: Option<&'a str>,
    pub reply_to: Option<&'a str>,
    pub ts: i64,
}

/// What a `seq` and the fields other than the free texts take, about.
const FRAME_BYTES: usize = 288;

impl Envelope<'_> {
    /// The JSON from behind the `seq` to the end.
    pub(crate) fn tail(&self) -> String {
        let mut json = self.space();
        self.write(&mut json);
        json
    }

    /// The whole message.
    pub(crate) fn whole(&self, seq: i64) -> Arc<str> {
        let mut json = self.space();
        head(&mut json, seq);
        self.write(&mut json);
        json.into()
    }

    fn space(&self) -> String {
        let free = self.parts.len() + self.mentions.map_or(0, str::len) + self.name.len();
        String::with_capacity(free + FRAME_BYTES)
    }

    fn write(&self, json: &mut String) {
        json.push_str(",\"id\":");
        text(json, self.id);
        json.push_str(",\"room\":");
        text(json, self.room);
        json.push_str(",\"from\":{\"id\":");
        text(json, self.author);
        json.push_str(",\"name\":");
        text(json, self.name);
        if let Some(role) = self.role {
            json.push_str(",\"role\":");
            text(json, role);
        }
        json.push_str("},\"parts\":");
        json.push_str(self.parts);
        if let Some(mentions) = self.mentions {
            json.push_str(",\"mentions\":");
            json.push_str(mentions);
        }
        if let Some(reply_to) = self.reply_to {
            json.push_str(",\"replyTo\":");
            text(json, reply_to);
        }
        json.push_str(",\"ts\":");
        json.push_str(&self.ts.to_string());
        json.push('}');
    }
}

/// The whole message of a tail.
pub(crate) fn whole(seq: i64, tail: &str) -> Arc<str> {
    let mut json = String::with_capacity(tail.len() + FRAME_BYTES);
    head(&mut json, seq);
    json.push_str(tail);
    json.into()
}

fn head(json: &mut String, seq: i64) {
    json.push_str("{\"seq\":");
    json.push_str(&seq.to_string());
}

/// Appends a JSON string.
fn text(json: &mut String, text: &str) {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{EndpointRef, Part, StoredMessage};

    #[test]
    fn the_bytes_are_those_of_the_wire_type() {
        for (role, mentions, reply_to) in [
            (None, None, None),
            (
                Some("re\"view\n"),
                Some(vec!["webdev".to_owned()]),
                Some("r\\1"),
            ),
        ] {
            let message = StoredMessage {
                seq: 42,
                id: "0190-a".into(),
                room: "release-train".into(),
                from: EndpointRef {
                    id: "U".repeat(56),
                    name: "né \u{1}".into(),
                    role: role.map(str::to_owned),
                },
                parts: vec![Part::text("hi \"you\"")],
                mentions: mentions.clone(),
                reply_to: reply_to.map(str::to_owned),
                ts: 1_760_000_000_000,
            };
            let parts = serde_json::to_string(&message.parts).unwrap();
            let mentions = mentions.map(|m| serde_json::to_string(&m).unwrap());
            let envelope = Envelope {
                id: &message.id,
                room: &message.room,
                author: &message.from.id,
                name: &message.from.name,
                role,
                parts: &parts,
                mentions: mentions.as_deref(),
                reply_to,
                ts: message.ts,
            };
            let wire = serde_json::to_string(&message).unwrap();
            assert_eq!(*whole(42, &envelope.tail()), wire);
            assert_eq!(*envelope.whole(42), wire);
        }
    }
}
