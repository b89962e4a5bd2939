//! The black-box suite (`crates/parler-hub/tests`, raw JSON and plain HTTP, no client of ours)
//! leaves out no op, no code, no frame and no route. What is only told here is that each is
//! asked for or expected somewhere; what must come of it is told there.

#![expect(
    clippy::unwrap_used,
    reason = "a suite that cannot be read fails the test"
)]

use std::path::Path;

use parler_protocol::{CLIENT_OPS, ErrorCode, SERVER_TYPES};

/// Codes that no request can bring about here: `unsupported` is for hubs that leave ops out, and
/// `timeout` needs fifteen silent seconds (its clock is tested in the hub's own unit tests).
const NOT_PROVOKED: &[&str] = &["unsupported", "timeout"];

/// The routes of the hub's router, as far as they are fixed text.
const ROUTES: &[&str] = &[
    "/health",
    "/join/",
    "/ws",
    "/api/hub",
    "/api/directory",
    "/api/agents/",
    "/api/session",
    "/api/session/blob/",
    "/api/room/messages",
    "/api/room/roster",
    "/api/room/cards",
    "/api/room/events",
    "/api/room/admin/",
    "/.well-known/parler.json",
    "/.well-known/agent-card.json",
    "/a2a/directory",
    "/a2a/agents/",
];

fn suite() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tests = std::fs::read_dir(crates.join("parler-hub/tests")).unwrap();
    let mut text: String = tests
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    // Its helpers write a few of the frames.
    text += &std::fs::read_to_string(crates.join("parler-testkit/src/raw.rs")).unwrap();
    text
}

#[test]
fn no_op_code_or_route_is_left_out() {
    let suite = suite();
    let quoted = |word: &&str| !suite.contains(&format!("\"{word}\""));
    let ops: Vec<_> = CLIENT_OPS.iter().copied().filter(quoted).collect();
    assert_eq!(ops, Vec::<&str>::new(), "ops that no test sends");
    let codes: Vec<_> = ErrorCode::ALL
        .iter()
        .map(ErrorCode::as_str)
        .filter(|code| !NOT_PROVOKED.contains(code))
        .filter(quoted)
        .collect();
    assert_eq!(codes, Vec::<&str>::new(), "codes that no test expects");
    let routes: Vec<_> = ROUTES
        .iter()
        .filter(|route| !suite.contains(**route))
        .collect();
    assert_eq!(routes, Vec::<&&str>::new(), "routes that no test asks for");
    let tests = suite.matches("#[tokio::test").count() + suite.matches("#[test]").count();
    println!(
        "{tests} black-box tests: {} ops, {} codes, {} routes; {} kinds of frames are known",
        CLIENT_OPS.len(),
        ErrorCode::ALL.len() - NOT_PROVOKED.len(),
        ROUTES.len(),
        SERVER_TYPES.len()
    );
    assert!(tests >= 190, "{tests}");
}
