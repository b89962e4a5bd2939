//! The wire shape of every frame and part against committed JSON.
//!
//! `golden/client` and `golden/server` hold one file a frame: `TAG.json` with every optional field
//! set and, where there are optional fields, `TAG.min.json` with none of them. `golden/parts` does
//! the same for parts. The files were written from the protocol's text, not by our encoder: when
//! one of them has to change, the wire changes, and existing peers with it.
//!
//! Beside the exact text the files drive what holds for all frames: unknown fields are ignored,
//! `null` is as good as absent, a repeated key is an error, the tag may stand anywhere.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use parler_protocol::types::is_extension_kind;
use parler_protocol::{CLIENT_OPS, ClientFrame, SERVER_TYPES, ServerFrame};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Fields that the contract requires and our decoder can do without: (file, name).
const READ_LENIENTLY: [(&str, &str); 4] = [
    ("admin", "id"),
    ("sent", "seenBy"),
    ("turn", "seenBy"),
    ("turns", "seenBy"),
];
/// Optional fields that may be absent but not `null`: (op, name).
const NEVER_NULL: [(&str, &str); 3] = [
    ("invite", "requireApproval"),
    ("register", "visibility"),
    ("discover", "scope"),
];

trait Frame: Serialize + DeserializeOwned + PartialEq + Debug {
    const DIR: &'static str;
    const TAG: &'static str;
    const ALL: &'static [&'static str];
}
impl Frame for ClientFrame {
    const DIR: &'static str = "client";
    const TAG: &'static str = "op";
    const ALL: &'static [&'static str] = CLIENT_OPS;
}
impl Frame for ServerFrame {
    const DIR: &'static str = "server";
    const TAG: &'static str = "type";
    const ALL: &'static [&'static str] = SERVER_TYPES;
}

/// The files of a directory: name without `.json`, one line of text without its newline.
fn golden(dir: &str) -> BTreeMap<String, String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(dir);
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.extension().unwrap(), "json", "{path:?}");
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text
            .strip_suffix('\n')
            .unwrap_or_else(|| panic!("{path:?}"));
        assert!(!line.contains('\n'), "{path:?} is more than one line");
        let name = path.file_stem().unwrap().to_str().unwrap();
        files.insert(name.to_owned(), line.to_owned());
    }
    files
}

fn read<F: Frame>(value: &Value) -> Result<F, serde_json::Error> {
    serde_json::from_str(&value.to_string())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn every_frame_has_its_exact_text<F: Frame>() {
    let files = golden(F::DIR);
    let tags: BTreeSet<_> = F::ALL.iter().map(|t| (*t).to_owned()).collect();
    let full = files.keys().filter(|n| !n.ends_with(".min"));
    let full: BTreeSet<_> = full.cloned().collect();
    let without_file: Vec<_> = tags.difference(&full).collect();
    assert!(without_file.is_empty(), "no golden file: {without_file:?}");
    for (name, text) in &files {
        let tag = name.strip_suffix(".min").unwrap_or(name);
        assert!(tags.contains(tag), "{name}.json belongs to no frame");
        assert_eq!(parse(text)[F::TAG], tag, "{name}");
        let frame: F = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(&serde_json::to_string(&frame).unwrap(), text, "{name}");
    }
}

#[test]
fn every_client_frame_has_its_exact_text() {
    every_frame_has_its_exact_text::<ClientFrame>();
}

#[test]
fn every_server_frame_has_its_exact_text() {
    every_frame_has_its_exact_text::<ServerFrame>();
}

/// Whether the fields of this object are somebody else's: an extension part, free-form data.
fn opaque(key: &str, value: &Value) -> bool {
    ["meta", "data"].contains(&key) || value["kind"].as_str().is_some_and(is_extension_kind)
}

/// JSON pointers of all objects whose fields are the contract's.
fn objects(key: &str, value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if !opaque(key, value) => {
            found.push(at.to_owned());
            for (key, value) in map {
                objects(key, value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                objects("", item, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    objects("", value, "", &mut found);
    found
}

fn object_mut<'a>(value: &'a mut Value, at: &str) -> &'a mut Map<String, Value> {
    value.pointer_mut(at).unwrap().as_object_mut().unwrap()
}

fn the_small_file_lacks_exactly_the_optional_fields<F: Frame>() {
    let files = golden(F::DIR);
    for (name, text) in files.iter().filter(|(n, _)| !n.ends_with(".min")) {
        let (full, small) = (parse(text), files.get(&format!("{name}.min")));
        for at in pointers(&full) {
            for key in full.pointer(&at).unwrap().as_object().unwrap().keys() {
                let mut without = full.clone();
                object_mut(&mut without, &at).remove(key);
                let lenient = READ_LENIENTLY.contains(&(name.as_str(), key.as_str()));
                let optional = read::<F>(&without).is_ok() && !lenient;
                let small = small.map(|text| parse(text));
                match small.as_ref().and_then(|small| small.pointer(&at)) {
                    Some(small) if small["kind"] != full.pointer(&at).unwrap()["kind"] => {}
                    Some(small) => {
                        assert_eq!(small.get(key).is_none(), optional, "{name}: {at}/{key}")
                    }
                    None if small.is_some() => {}
                    None => assert!(
                        !optional,
                        "{name}: {at}/{key} is optional: add {name}.min.json"
                    ),
                }
            }
        }
    }
}

#[test]
fn the_small_client_files_lack_exactly_the_optional_fields() {
    the_small_file_lacks_exactly_the_optional_fields::<ClientFrame>();
}

#[test]
fn the_small_server_files_lack_exactly_the_optional_fields() {
    the_small_file_lacks_exactly_the_optional_fields::<ServerFrame>();
}

fn readers_are_tolerant<F: Frame>() {
    for (name, text) in golden(F::DIR) {
        let value = parse(&text);
        let frame: F = serde_json::from_str(&text).unwrap();
        let mut more = value.clone();
        for at in pointers(&value) {
            object_mut(&mut more, &at).insert("zzFuture".into(), json!({"kind": [1, null]}));
        }
        assert_eq!(read::<F>(&more).unwrap(), frame, "{name}: unknown fields");

        let tag = value[F::TAG].as_str().unwrap();
        let head = format!("{{\"{}\":\"{tag}\"", F::TAG);
        let rest = text.strip_prefix(&head).unwrap().trim_start_matches(',');
        let tag_last = match rest.strip_suffix('}').unwrap() {
            "" => format!("{head}}}"),
            fields => format!("{{{fields},{}}}", &head[1..]),
        };
        assert_eq!(
            serde_json::from_str::<F>(&tag_last).unwrap(),
            frame,
            "{name}: tag last"
        );

        for (key, field) in value.as_object().unwrap() {
            let twice = format!("{{\"{key}\":{field},{}", &text[1..]);
            assert!(
                serde_json::from_str::<F>(&twice).is_err(),
                "{name}: {key} twice"
            );
        }
    }
}

#[test]
fn readers_of_client_frames_are_tolerant() {
    readers_are_tolerant::<ClientFrame>();
}

#[test]
fn readers_of_server_frames_are_tolerant() {
    readers_are_tolerant::<ServerFrame>();
}

fn null_is_as_good_as_absent<F: Frame>() {
    let files = golden(F::DIR);
    for (name, text) in files.iter().filter(|(n, _)| !n.ends_with(".min")) {
        let Some(small) = files.get(&format!("{name}.min")).map(|text| parse(text)) else {
            continue;
        };
        for key in parse(text).as_object().unwrap().keys() {
            if small.get(key).is_some() {
                continue;
            }
            let mut with_null = small.clone();
            object_mut(&mut with_null, "").insert(key.clone(), Value::Null);
            let strict = NEVER_NULL.contains(&(name.as_str(), key.as_str()));
            match read::<F>(&with_null) {
                Ok(frame) => assert!(!strict && frame == read(&small).unwrap(), "{name}: {key}"),
                Err(e) => assert!(strict, "{name}: {key}: {e}"),
            }
        }
    }
}

#[test]
fn null_is_as_good_as_absent_in_all_but_three_fields() {
    null_is_as_good_as_absent::<ClientFrame>();
    null_is_as_good_as_absent::<ServerFrame>();
}

#[test]
fn a_tag_that_nobody_knows_is_an_error() {
    for text in [
        r#"{"op":"dance"}"#,
        r#"{"op":"Ping"}"#,
        "{}",
        r#"{"type":"ping"}"#,
        "[]",
    ] {
        assert!(serde_json::from_str::<ClientFrame>(text).is_err(), "{text}");
    }
}
