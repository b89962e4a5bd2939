//! Checks the `parts` of a send without building them.
//!
//! One pass over the raw JSON, no allocation for the usual message: an array of objects, each with
//! a string `kind`, core kinds with their sibling, others reverse-DNS. Everything that a reader
//! must be able to decode is decoded here once (numbers, escapes, depth): what a reader cannot
//! read would stand in the log and block it for ever.

use std::borrow::Cow;
use std::fmt;

use parler_protocol::Part;
use parler_protocol::parts::{
    BUNDLE_KIND, DISPATCH_KIND, FILE_KIND, HANDOFF_KIND, SIG_KIND, TASK_KIND,
};
use parler_protocol::types::is_extension_kind;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::defaults::MAX_PARTS_DEPTH;

/// Which of the kinds that the hub looks at stand in a message: only then are its parts built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// A handoff.
    pub const HANDOFF: Kinds = Kinds(1);
    /// Work for a role.
    pub const DISPATCH: Kinds = Kinds(1 << 1);
    /// A report on work.
    pub const TASK: Kinds = Kinds(1 << 2);
    /// A signature.
    pub const SIG: Kinds = Kinds(1 << 3);
    /// A file or a bundle.
    pub const FILE: Kinds = Kinds(1 << 4);

    /// Whether one of `others` stands in the message.
    #[must_use]
    pub fn any(self, others: Kinds) -> bool {
        self.0 & others.0 != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn and(self, others: Kinds) -> Kinds {
        Kinds(self.0 | others.0)
    }

    fn of(kind: &str) -> Kinds {
        match kind {
            HANDOFF_KIND => Self::HANDOFF,
            DISPATCH_KIND => Self::DISPATCH,
            TASK_KIND => Self::TASK,
            SIG_KIND => Self::SIG,
            FILE_KIND | BUNDLE_KIND => Self::FILE,
            _ => Kinds(0),
        }
    }
}

/// Validated parts as they are to be stored.
#[derive(Debug)]
pub struct Checked<T> {
    /// A JSON array.
    pub json: T,
    /// What stands in it.
    pub kinds: Kinds,
}

/// What the one pass found.
#[derive(Default)]
struct Found {
    /// Siblings that the contract drops.
    strange: bool,
    kinds: Kinds,
}

/// Validates parts: the client's own text, or the normal form where the client wrote siblings
/// that the contract drops.
///
/// # Errors
/// Why they are refused.
pub fn normalise(raw: &str) -> Result<Checked<Cow<'_, str>>, serde_json::Error> {
    let mut found = Found::default();
    let mut json = serde_json::Deserializer::from_str(raw);
    Array { found: &mut found }.deserialize(&mut json)?;
    json.end()?;
    let kinds = found.kinds;
    let json = if found.strange {
        let parts: Vec<Part> = serde_json::from_str(raw)?;
        Cow::Owned(serde_json::to_string(&parts)?)
    } else {
        Cow::Borrowed(raw)
    };
    Ok(Checked { json, kinds })
}

struct Array<'a> {
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for Array<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Array<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of parts")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq
            .next_element_seed(OnePart {
                found: &mut *self.found,
            })?
            .is_some()
        {}
        Ok(())
    }
}

struct OnePart<'a> {
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for OnePart<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

/// What a value was, as far as a part's shape asks.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Nothing,
    Text,
    Other,
}

impl<'de> Visitor<'de> for OnePart<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part: an object with a string `kind`")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut kind: Option<Kind> = None;
        let (mut text, mut data, mut fields) = (Seen::Nothing, Seen::Nothing, 0_usize);
        while let Some(key) = map.next_key_seed(Key)? {
            fields += 1;
            match key {
                Field::Kind => kind = Some(map.next_value_seed(KindSeed)?),
                Field::Text => text = map.next_value_seed(Value { depth: 2 })?,
                Field::Data => data = map.next_value_seed(Value { depth: 2 })?,
                Field::Other => {
                    map.next_value_seed(Value { depth: 2 })?;
                }
            }
        }
        match kind {
            Some(Kind::Text) if text == Seen::Text => self.found.strange |= fields != 2,
            Some(Kind::Data) if data != Seen::Nothing => self.found.strange |= fields != 2,
            Some(Kind::Extension(kinds)) => self.found.kinds = self.found.kinds.and(kinds),
            Some(Kind::Text) => return Err(A::Error::custom("a text part needs a string `text`")),
            Some(Kind::Data) => return Err(A::Error::custom("a data part needs `data`")),
            Some(Kind::Bad) => {
                return Err(A::Error::custom(
                    "a part's `kind` is `text`, `data` or a reverse-DNS name",
                ));
            }
            None => return Err(A::Error::custom("a part needs a string `kind`")),
        }
        Ok(())
    }
}

enum Field {
    Kind,
    Text,
    Data,
    Other,
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Field;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Field, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Field;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: Error>(self, key: &str) -> Result<Field, E> {
        Ok(match key {
            "kind" => Field::Kind,
            "text" => Field::Text,
            "data" => Field::Data,
            _ => Field::Other,
        })
    }
}

enum Kind {
    Text,
    Data,
    Extension(Kinds),
    Bad,
}

struct KindSeed;

impl<'de> DeserializeSeed<'de> for KindSeed {
    type Value = Kind;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Kind, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for KindSeed {
    type Value = Kind;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string `kind`")
    }
    fn visit_str<E: Error>(self, kind: &str) -> Result<Kind, E> {
        Ok(match kind {
            "text" => Kind::Text,
            "data" => Kind::Data,
            kind if is_extension_kind(kind) => Kind::Extension(Kinds::of(kind)),
            _ => Kind::Bad,
        })
    }
}

/// Walks any value: every number and escape is decoded, nothing is kept.
struct Value {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Value {
    type Value = Seen;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Seen, D::Error> {
        d.deserialize_any(self)
    }
}

impl Value {
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        if self.depth >= MAX_PARTS_DEPTH {
            return Err(E::custom(format_args!(
                "nested deeper than {MAX_PARTS_DEPTH}"
            )));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = Seen;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: Error>(self) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }
    fn visit_str<E: Error>(self, _: &str) -> Result<Seen, E> {
        Ok(Seen::Text)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Seen, A::Error> {
        let depth = self.deeper()?;
        while seq.next_element_seed(Value { depth })?.is_some() {}
        Ok(Seen::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let depth = self.deeper()?;
        while map.next_key_seed(Key)?.is_some() {
            map.next_value_seed(Value { depth })?;
        }
        Ok(Seen::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_parts_pass_as_they_are() {
        for raw in [
            "[]",
            r#"[{"kind":"text","text":"x"}]"#,
            r#"[ {"text":"x\u00e9","kind":"text"} , {"kind":"data","data":null} ]"#,
            r#"[{"kind":"org.x","a":{"b":[1,2.5,null,"é",{"c":[]}]},"a":1}]"#,
        ] {
            assert!(
                matches!(normalise(raw).map(|c| c.json), Ok(Cow::Borrowed(same)) if same == raw),
                "{raw}"
            );
        }
    }

    #[test]
    fn foreign_siblings_of_core_parts_are_dropped() {
        let raw = r#"[{"kind":"text","text":"x","junk":1},{"data":1,"kind":"data","j":2}]"#;
        assert_eq!(
            normalise(raw).unwrap().json,
            r#"[{"kind":"text","text":"x"},{"kind":"data","data":1}]"#
        );
        let twice = r#"[{"kind":"org.x","kind":"text","text":"a"}]"#;
        assert_eq!(
            normalise(twice).unwrap().json,
            r#"[{"kind":"text","text":"a"}]"#
        );
    }

    #[test]
    fn the_kinds_that_matter_are_noticed_on_the_way() {
        let raw = r#"[{"kind":"text","text":"x"},{"kind":"com.parler.handoff","next":"y"},
            {"kind":"com.parler.sig","kind":"com.parler.task"}]"#;
        let kinds = normalise(raw).unwrap().kinds;
        assert_eq!(kinds, Kinds::HANDOFF.and(Kinds::TASK));
        assert!(kinds.any(Kinds::TASK.and(Kinds::SIG)) && !kinds.any(Kinds::SIG));
        assert_eq!(normalise("[]").unwrap().kinds, Kinds::default());
    }

    #[test]
    fn what_is_accepted_can_be_read_back() {
        let deep = |n: usize| {
            format!(
                r#"[{{"kind":"org.x","a":{}1{}}}]"#,
                "[".repeat(n),
                "]".repeat(n)
            )
        };
        let fits = deep(MAX_PARTS_DEPTH - 2);
        assert!(normalise(&fits).is_ok());
        // The deepest frame around it that a client has to read.
        let frame = format!(
            r#"{{"type":"pulled","room":"r","cursor":1,"messages":[
            {{"seq":1,"id":"m","room":"r","from":{{"id":"U","name":"n"}},"ts":1,"parts":{fits}}}]}}"#
        );
        assert!(serde_json::from_str::<parler_protocol::ServerFrame>(&frame).is_ok());
        assert!(normalise(&deep(MAX_PARTS_DEPTH)).is_err());
        assert!(normalise(&deep(100_000)).is_err());
    }

    #[test]
    fn what_no_reader_can_decode_is_refused() {
        for raw in [
            r#"[{"kind":"text","text":"\ud800"}]"#,
            r#"[{"kind":"org.x","a":"\udc00 "}]"#,
            r#"[{"kind":"org.x","a":1e999}]"#,
            r#"[{"kind":"org.x","\ud800":1}]"#,
            r#"[{"kind":"text"}]"#,
            r#"[{"kind":"text","text":5}]"#,
            r#"[{"kind":"data"}]"#,
            r#"[{"kind":"image"}]"#,
            r#"[{"kind":"a..b"}]"#,
            r#"[{"text":"x"}]"#,
            r#"["x"]"#,
            r#"{"kind":"text","text":"x"}"#,
            r#"[{"kind":"text","text":"x"}"#,
            r#"[] x"#,
        ] {
            assert!(normalise(raw).is_err(), "{raw}");
        }
    }
}
