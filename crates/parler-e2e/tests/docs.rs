//! What the documents say is what the code has: the ops, the golden examples, the limits.

#![expect(
    clippy::unwrap_used,
    reason = "a page that cannot be read fails the test"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parler_protocol::CLIENT_OPS;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// What follows each mark `<!-- check: KIND ARGUMENT -->`: the argument, and the text behind it.
fn marked<'a>(page: &'a str, kind: &str) -> Vec<(&'a str, &'a str)> {
    let mark = format!("<!-- check: {kind}");
    let parts = page.split(mark.as_str()).skip(1);
    let found: Vec<_> = parts.map(|part| part.split_once("-->").unwrap()).collect();
    assert!(!found.is_empty(), "no mark {kind:?}");
    found
        .into_iter()
        .map(|(argument, text)| (argument.trim(), text))
        .collect()
}

/// The rows of the table that a text begins with: first and second cell, without back-ticks.
fn rows(text: &str) -> Vec<(String, String)> {
    let cell = |line: &str, n: usize| {
        line.split('|')
            .nth(n)
            .unwrap_or_default()
            .trim()
            .trim_matches('`')
            .to_owned()
    };
    text.trim_start()
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| (cell(line, 1), cell(line, 2)))
        .collect()
}

#[test]
fn every_op_is_either_documented_or_listed_as_unsupported() {
    let protocol = page("protocol.md");
    let (_, table) = marked(&protocol, "ops")[0];
    let done: BTreeSet<String> = rows(table).into_iter().map(|row| row.0).collect();
    let section = protocol
        .split("## 7. Ops that answer `unsupported`")
        .nth(1)
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let later: BTreeSet<String> = section
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| CLIENT_OPS.contains(word))
        .map(str::to_owned)
        .collect();
    let all: BTreeSet<String> = CLIENT_OPS.iter().map(|op| (*op).to_owned()).collect();
    assert!(done.is_disjoint(&later), "{:?}", done.intersection(&later));
    assert_eq!(done.union(&later).cloned().collect::<BTreeSet<_>>(), all);
}

#[test]
fn examples_of_frames_are_the_golden_ones() {
    let protocol = page("protocol.md");
    for (file, text) in marked(&protocol, "golden") {
        let block = text
            .split("```json")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        let shown: Value = serde_json::from_str(block).unwrap();
        let path = root()
            .join("crates/parler-protocol/tests/golden")
            .join(file);
        let golden = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
        let golden: Value = serde_json::from_str(&golden).unwrap();
        assert_eq!(shown, golden, "{file}");
    }
}

/// The value of a constant as the source has it, products worked out.
fn constant(source: &str, name: &str) -> Option<String> {
    let line = source.split(&format!("pub const {name}:")).nth(1)?;
    let value = line.split_once('=')?.1.split_once(';')?.0.trim();
    let plain = value.replace('_', "");
    let product = plain
        .split('*')
        .map(|n| n.trim().parse::<u64>())
        .product::<Result<u64, _>>();
    Some(match product {
        Ok(number) => number.to_string(),
        Err(_) => value.trim_matches('"').to_owned(),
    })
}

#[test]
fn limits_are_those_of_the_sources() {
    let limits = page("limits.md");
    let mut compared = 0;
    for (file, text) in marked(&limits, "limits") {
        let source = std::fs::read_to_string(root().join(file)).unwrap();
        for (name, shown) in rows(text) {
            let value = constant(&source, &name).unwrap_or_else(|| panic!("{file} has no {name}"));
            // Durations and references to other constants are words for readers.
            if value.chars().all(|c| c.is_ascii_digit()) {
                assert_eq!(shown, value, "{name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}
