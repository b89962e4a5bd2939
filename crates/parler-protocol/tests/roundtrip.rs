//! Whatever a peer may send survives reading and writing; canonical bytes are canonical.
//!
//! Floats are drawn from the exactly representable ones: the last digit of any other is not part
//! of the contract.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use parler_protocol::canonical::{message_bytes, to_vec};
use parler_protocol::{
    ClientFrame, Delivery, EndpointRef, Part, SIG_KIND, Send, ServerFrame, StoredMessage, Target,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

fn key() -> impl Strategy<Value = String> {
    // Mostly short, so that one key is a prefix of another; any character, quotes included.
    prop_oneof![
        "[a-c]{0,3}",
        "\\PC{0,6}",
        "[\\x00-\\x1f\"\\\\\u{7f}é😀\u{ffff}]{1,3}"
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key(), inner), 0..5).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

fn extension() -> impl Strategy<Value = Part> {
    let kind = prop_oneof![
        "[A-Za-z0-9-]{1,6}(\\.[A-Za-z0-9-]{1,6}){1,3}",
        Just(SIG_KIND.into())
    ];
    let name = prop_oneof![key(), "(text|data|next|target)"];
    let fields = vec(
        (name.prop_filter("a sibling", |k| k != "kind"), value()),
        0..6,
    );
    (kind, fields).prop_map(|(kind, fields)| Part::Extension {
        kind,
        fields: Map::from_iter(fields),
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        1 => ".{0,40}".prop_map(Part::text),
        1 => value().prop_map(|data| Part::Data { data }),
        3 => extension(),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        ".{1,12}".prop_map(|room| Target::Room { room }),
        ".{1,12}".prop_map(|agent| Target::Dm { agent }),
        ".{1,12}".prop_map(|service| Target::Service { service }),
    ]
}

fn message() -> impl Strategy<Value = StoredMessage> {
    let from = (".{0,12}", ".{0,12}", option::of(".{0,12}"));
    let optional = (option::of(vec(".{0,8}", 0..4)), option::of(".{0,12}"));
    (
        any::<i64>(),
        ".{0,12}",
        ".{0,12}",
        from,
        vec(part(), 0..5),
        optional,
        any::<i64>(),
    )
        .prop_map(
            |(seq, id, room, (from, name, role), parts, (mentions, reply_to), ts)| StoredMessage {
                seq,
                id,
                room,
                from: EndpointRef {
                    id: from,
                    name,
                    role,
                },
                parts,
                mentions,
                reply_to,
                ts,
            },
        )
}

/// JSON with the order of its keys, which `Value` may not keep.
#[derive(Debug)]
enum Ordered {
    Leaf,
    Array(Vec<Ordered>),
    Object(Vec<(String, Ordered)>),
}

impl Ordered {
    fn sorted(&self) -> bool {
        match self {
            Ordered::Leaf => true,
            Ordered::Array(items) => items.iter().all(Ordered::sorted),
            Ordered::Object(fields) => {
                fields.iter().all(|(_, value)| value.sorted())
                    && fields
                        .windows(2)
                        .all(|two| two[0].0.as_bytes() < two[1].0.as_bytes())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Ordered;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_str<E>(self, _: &str) -> Result<Ordered, E> {
                Ok(Ordered::Leaf)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Ordered::Array(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered::Object(fields))
            }
        }
        d.deserialize_any(Reader)
    }
}

/// The same value with every object filled in the opposite order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .rev()
            .map(|(key, value)| (key.clone(), reversed(value)))
            .collect(),
        Value::Array(items) => items.iter().map(reversed).collect(),
        leaf => leaf.clone(),
    }
}

proptest! {
    #[test]
    fn a_part_survives_with_everything_in_it(part in part()) {
        let text = serde_json::to_string(&part).unwrap();
        let back: Part = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&back, &part);
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn a_stored_message_survives_alone_and_in_a_frame(message in message()) {
        let text = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(&serde_json::from_str::<StoredMessage>(&text).unwrap(), &message);
        let frame = ServerFrame::Delivery(Delivery { message });
        let text = serde_json::to_string(&frame).unwrap();
        prop_assert_eq!(serde_json::from_str::<ServerFrame>(&text).unwrap(), frame);
    }

    #[test]
    fn a_send_survives_in_its_frame(target in target(), parts in vec(part(), 0..5), key in option::of(".{0,9}")) {
        let frame = ClientFrame::Send(Send {
            target,
            parts,
            mentions: None,
            reply_to: key.clone(),
            client_id: key,
            deadline_secs: None,
        });
        let text = serde_json::to_string(&frame).unwrap();
        prop_assert_eq!(serde_json::from_str::<ClientFrame>(&text).unwrap(), frame);
    }

    #[test]
    fn raw_parts_keep_every_byte(message in message(), gap in "[ \n\t]{0,3}") {
        let text = serde_json::to_string(&message).unwrap();
        let text = text.replacen("\"parts\":[", &format!("\"parts\":[{gap}"), 1);
        let raw: StoredMessage<Box<RawValue>> = serde_json::from_str(&text).unwrap();
        let back = serde_json::to_string(&raw).unwrap();
        prop_assert_eq!(&back, &text);
        prop_assert_eq!(serde_json::from_str::<StoredMessage>(&back).unwrap(), message);
    }

    #[test]
    fn canonical_bytes_are_sorted_and_compact_and_mean_the_same(value in value()) {
        let bytes = to_vec(&value);
        prop_assert!(serde_json::from_slice::<Ordered>(&bytes).unwrap().sorted());
        prop_assert_eq!(&serde_json::from_slice::<Value>(&bytes).unwrap(), &value);
        prop_assert_eq!(bytes.len(), value.to_string().len(), "only the order may differ");
    }

    #[test]
    fn canonical_bytes_do_not_depend_on_the_order_of_keys(value in value()) {
        let bytes = to_vec(&value);
        prop_assert_eq!(&to_vec(&reversed(&value)), &bytes);
        let again: Value = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(to_vec(&again), bytes, "idempotent");
    }

    #[test]
    fn signed_bytes_survive_the_wire_and_cover_no_signature(message in message(), target in target()) {
        let bytes = |parts: &[Part]| {
            let signed = parler_protocol::canonical::Signed {
                from: &message.from.id,
                target: &target,
                reply_to: message.reply_to.as_deref(),
                ts: message.ts,
                uid: "u",
            };
            message_bytes(signed, parts)
        };
        let text = serde_json::to_string(&message).unwrap();
        let back: StoredMessage = serde_json::from_str(&text).unwrap();
        let before = bytes(&message.parts);
        prop_assert_eq!(&bytes(&back.parts), &before);
        prop_assert!(before.starts_with(b"{\"from\":"), "never the start of a challenge");
        let mut unsigned = back.parts;
        unsigned.retain(|part| part.kind() != SIG_KIND);
        prop_assert_eq!(bytes(&unsigned), before);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,60}", value in value()) {
        for text in [text, value.to_string()] {
            let _ = serde_json::from_str::<Part>(&text);
            let _ = serde_json::from_str::<ClientFrame>(&text);
            let _ = serde_json::from_str::<ServerFrame>(&text);
        }
    }
}
