//! Which crate may know which: the picture of docs/architecture.md, checked against `cargo
//! metadata`. A new arrow is drawn there first.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop right there

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// What each crate is allowed to depend on in this workspace.
const ARROWS: &[(&str, &[&str])] = &[
    ("parler-protocol", &[]),
    ("parler-identity", &["parler-protocol"]),
    ("parler-store", &["parler-protocol"]),
    ("parler-store-sqlite", &["parler-protocol", "parler-store"]),
    (
        "parler-hub",
        &[
            "parler-identity",
            "parler-protocol",
            "parler-store",
            "parler-store-sqlite",
        ],
    ),
    ("parler-connector", &["parler-identity", "parler-protocol"]),
    ("parler-mcp", &["parler-connector", "parler-protocol"]),
    (
        "parler",
        &[
            "parler-connector",
            "parler-hub",
            "parler-identity",
            "parler-mcp",
            "parler-protocol",
        ],
    ),
    // Development only: these may hold both ends.
    (
        "parler-testkit",
        &[
            "parler-connector",
            "parler-hub",
            "parler-identity",
            "parler-protocol",
            "parler-store",
            "parler-store-sqlite",
        ],
    ),
    (
        "parler-bench",
        &[
            "parler-connector",
            "parler-hub",
            "parler-identity",
            "parler-protocol",
        ],
    ),
    ("parler-e2e", &["parler-protocol"]),
];

/// Libraries that only some crates may know: SQL, the hub's WebSocket, HTTP, MCP, hosts' files.
const OWNED: &[(&str, &[&str])] = &[
    // The bench asks SQLite itself, to have something to compare with.
    ("rusqlite", &["parler-store-sqlite", "parler-bench"]),
    ("axum", &["parler-hub"]),
    (
        "tokio-tungstenite",
        // The hub's sockets are axum's; it only tells their errors apart.
        &[
            "parler-hub",
            "parler-connector",
            "parler-testkit",
            "parler-bench",
        ],
    ),
    ("rmcp", &["parler-mcp"]),
    ("jsonc-parser", &["parler"]),
];

/// All that the wire contract may stand on: no I/O, no runtime, no clock.
const UNDER_PROTOCOL: &[&str] = &["schemars", "serde", "serde_json", "thiserror"];

struct Dependency {
    name: String,
    dev: bool,
    optional: bool,
}

fn crates() -> BTreeMap<String, Vec<Dependency>> {
    let done = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let metadata: Value = serde_json::from_slice(&done.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let dependency = |d: &Value| Dependency {
        name: d["name"].as_str().unwrap().to_owned(),
        dev: d["kind"] == "dev",
        optional: d["optional"] == true,
    };
    packages
        .iter()
        .map(|package| {
            let list = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(dependency);
            (package["name"].as_str().unwrap().to_owned(), list.collect())
        })
        .collect()
}

#[test]
fn no_crate_knows_another_that_it_should_not() {
    let crates = crates();
    for (name, dependencies) in &crates {
        let (_, allowed) = ARROWS
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("{name} has no place in the picture yet"));
        for dependency in dependencies.iter().filter(|d| crates.contains_key(&d.name)) {
            // Tests may use the test kit, and below it whatever has no I/O.
            let for_tests = dependency.dev
                && ["parler-testkit", "parler-identity"].contains(&dependency.name.as_str());
            assert!(
                for_tests || allowed.contains(&dependency.name.as_str()),
                "{name} must not depend on {}",
                dependency.name
            );
        }
    }
}

#[test]
fn both_ends_agree_only_through_the_protocol() {
    for (name, dependencies) in crates() {
        let knows = |other: &str| dependencies.iter().any(|d| d.name == other && !d.dev);
        let both = knows("parler-hub") && knows("parler-connector");
        let may = ["parler", "parler-testkit", "parler-bench"].contains(&name.as_str());
        assert!(!both || may, "{name} holds both ends");
    }
    let parler = &crates()["parler"];
    let hub = parler.iter().find(|d| d.name == "parler-hub").unwrap();
    assert!(hub.optional, "the hub is behind a feature of parler");
}

#[test]
fn libraries_stay_with_their_owners() {
    for (name, dependencies) in crates() {
        for dependency in dependencies.iter().filter(|d| !d.dev) {
            if let Some((library, owners)) = OWNED.iter().find(|(l, _)| *l == dependency.name) {
                assert!(
                    owners.contains(&name.as_str()),
                    "{name} must not know {library}"
                );
            }
            if name == "parler-protocol" {
                let known = UNDER_PROTOCOL.contains(&dependency.name.as_str());
                assert!(
                    known,
                    "parler-protocol must not depend on {}",
                    dependency.name
                );
            }
        }
    }
}
