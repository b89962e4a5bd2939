//! The exact bytes that get signed.
//!
//! Canonical form: compact JSON, object keys sorted at every level by the bytes of their UTF-8,
//! absent optionals omitted. Strings escape only `"`, `\` and U+0000 to U+001F. It sorts by
//! itself, whatever order the values were built in: the map type of `serde_json` keeps insertion
//! order when any crate of the build asks for that.
//!
//! What may be signed with an agent's key, and how the three kinds of text are told apart: a
//! login challenge starts with [`CHALLENGE_PREFIX`], a hub's proof with [`HUB_PROOF_PREFIX`],
//! cards and messages start with `{`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::parts::SIG_KIND;
use crate::types::{AgentCard, Part, Target};

/// First field of every login challenge.
pub const CHALLENGE_PREFIX: &str = "parler-auth:v1:";
/// First fields of the text by which a hub proves its own key.
pub const HUB_PROOF_PREFIX: &str = "parler-hub:v1:";

/// Whether a hub's text has exactly the shape of a login challenge: five fields, the first two
/// `parler-auth` and `v1`, the others not empty and printable. A client signs nothing else:
/// otherwise a hostile hub could have it sign a card or message of the hub's making.
#[must_use]
pub fn is_challenge(nonce: &str) -> bool {
    let mut fields = nonce.split(':');
    fields.next() == Some("parler-auth")
        && fields.next() == Some("v1")
        && fields.clone().count() == 3
        && fields.all(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_graphic()))
}

/// The text by which a hub proves its key to a client: its signature covers the client's random
/// `hubNonce` and the challenge's nonce.
#[must_use]
pub fn hub_proof(hub_nonce: &str, nonce: &str) -> String {
    format!("{HUB_PROOF_PREFIX}{hub_nonce}:{nonce}")
}

/// Canonical JSON of any value.
#[must_use]
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => write_object(map, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

fn write_object(map: &Map<String, Value>, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    out.push(b'{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::String(key.clone()).to_string().as_bytes());
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn tree(value: &impl Serialize) -> Value {
    // The types of this crate serialise: string keys only, no failing implementations.
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The bytes that a card's signature covers.
#[must_use]
pub fn card_bytes(card: &AgentCard) -> Vec<u8> {
    to_vec(&tree(card))
}

/// What a message's signature covers beside the parts.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// Author id.
    pub from: &'a str,
    /// What the author addressed.
    pub target: &'a Target,
    /// Id of the answered message, if any.
    pub reply_to: Option<&'a str>,
    /// The author's clock, milliseconds.
    pub ts: i64,
    /// Unique string of the author's choice.
    pub uid: &'a str,
}

/// The bytes that a message's signature covers: all parts but those of kind `com.parler.sig`.
#[must_use]
pub fn message_bytes(signed: Signed<'_>, parts: &[Part]) -> Vec<u8> {
    let kept = parts
        .iter()
        .filter(|p| p.kind() != SIG_KIND)
        .map(tree)
        .collect();
    let mut map = Map::new();
    map.insert("v".into(), 1.into());
    map.insert("from".into(), signed.from.into());
    map.insert("target".into(), tree(signed.target));
    map.insert("parts".into(), Value::Array(kept));
    map.insert("ts".into(), signed.ts.into());
    map.insert("uid".into(), signed.uid.into());
    if let Some(reply_to) = signed.reply_to {
        map.insert("replyTo".into(), reply_to.into());
    }
    let mut out = Vec::with_capacity(256);
    write_object(&map, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_at_every_level_by_bytes() {
        let value: Value = serde_json::from_str(
            r#"{"b":{"z":1,"a":[{"y":2,"x":3}]},"\u00e9":0,"a":null,"Z":1.0}"#,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(to_vec(&value)).unwrap(),
            r#"{"Z":1.0,"a":null,"b":{"a":[{"x":3,"y":2}],"z":1},"é":0}"#
        );
    }

    #[test]
    fn only_the_necessary_is_escaped() {
        let value = json!("\"\\/\u{8}\u{9}\u{a}\u{c}\u{d}\u{1f}\u{7f}é😀");
        assert_eq!(
            String::from_utf8(to_vec(&value)).unwrap(),
            "\"\\\"\\\\/\\b\\t\\n\\f\\r\\u001f\u{7f}é😀\""
        );
    }

    #[test]
    fn only_a_challenge_has_the_shape_of_one() {
        assert!(is_challenge(
            "parler-auth:v1:22879f9aaa3a:1760000060000:0b8f6b1e-3f0a-4b52-9d55-6a6f2f1c9a10"
        ));
        for bad in [
            "",
            "parler-auth:v1:a:b",
            "parler-auth:v1:a:b:c:d",
            "parler-auth:v1:a::c",
            "parler-auth:v2:a:b:c",
            " parler-auth:v1:a:b:c",
            "parler-auth:v1:a:b:c d",
            "parler-auth:v1:a:b:c\n",
            "parler-hub:v1:a:b:c",
            r#"{"id":"parler-auth:v1:a:b:c"}"#,
        ] {
            assert!(!is_challenge(bad), "{bad:?}");
        }
        assert!(!is_challenge(&hub_proof("a", "parler-auth:v1:a:b:c")));
    }
}
