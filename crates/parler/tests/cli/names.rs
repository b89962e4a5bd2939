//! Who is meant by a name, what may wake, codes as people retype them, cards that change.

use crate::env::Machine;

fn id(machine: &Machine, name: &str) -> String {
    let whoami = machine.json(&["whoami", "--as", name]);
    whoami["id"].as_str().unwrap().to_owned()
}

#[test]
fn members_are_meant_by_a_name_that_only_one_has() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["transfer", "WebDev", "--room", "auth", "--as", "planner"]);
    let back = machine.run(&["remove", "nobody-here", "--room", "auth", "--as", "webdev"]);
    assert_eq!(back.code, 5, "{back:?}");
    assert!(
        back.err.contains("planner"),
        "it says who is there: {back:?}"
    );
    let gone = machine.ok(&["remove", "planner", "--room", "auth", "--as", "webdev"]);
    assert!(gone.contains("planner …"), "{gone}");
}

#[test]
fn two_of_one_name_a_look_alike_and_a_reserved_word_are_refused() {
    let machine = Machine::new();
    machine.session("auth");
    let key = machine.open("auth");
    // Two agents, to whom the same is called out.
    machine.ok(&["session", "join", &key, "--as", "WebDev"]);
    let hand = |to: &str| machine.run(&["handoff", "--as", "planner", "--for", to, "--next", "x"]);
    let two = hand("webdev");
    assert_eq!(two.code, 5, "{two:?}");
    for name in ["webdev", "WebDev"] {
        let id = id(&machine, name);
        assert!(
            two.err.contains(&format!("…{}", &id[id.len() - 6..])),
            "{two:?}"
        );
    }
    let ends = id(&machine, "WebDev");
    let one = machine.ok(&[
        "handoff",
        "--as",
        "planner",
        "--for",
        &ends[ends.len() - 6..],
        "--next",
        "x",
    ]);
    assert!(one.contains(&ends), "{one}");
    let alike = hand("w\u{435}bdev");
    assert_eq!(alike.code, 5, "{alike:?}");
    assert!(alike.err.contains("only looks like"), "{alike:?}");
    let hidden = machine.run(&["send", "--to", "web\u{200B}dev", "x", "--as", "planner"]);
    assert_eq!(hidden.code, 2, "{hidden:?}");
    let reserved = machine.run(&["send", "--to", "all", "x", "--as", "planner"]);
    assert_eq!(reserved.code, 2, "{reserved:?}");
    assert!(reserved.err.contains("reserved"), "{reserved:?}");
}

#[test]
fn a_key_is_taken_as_people_retype_it_and_can_be_taken_back() {
    let machine = Machine::new();
    let key = machine.open("auth");
    let (code, hub) = key.split_once('@').unwrap();
    let lower = code.to_lowercase();
    let (a, b) = lower.split_at(4);
    for (n, typed) in [
        format!(" {a}-{b} "),
        format!("{a} {b}"),
        format!("{a}{b}@{hub}"),
        format!("{hub}/join/{code}"),
    ]
    .iter()
    .enumerate()
    {
        machine.ok(&["join", typed, "--as", &format!("agent{n}")]);
    }
    let done = machine.ok(&["invite", "revoke", &key, "--as", "planner"]);
    assert!(done.contains("1 code revoked"), "{done}");
    let late = machine.run(&["join", &key, "--as", "late"]);
    assert_eq!(late.code, 5, "{late:?}");
    let none = machine.ok(&["invite", "revoke", "--room", "auth", "--as", "planner"]);
    assert!(none.contains("no code was open"), "{none}");
}

#[test]
fn attention_is_kept_for_all_rooms_and_for_one() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["attention", "dnd", "--as", "webdev"]);
    machine.ok(&["attention", "muted", "--room", "chatter", "--as", "webdev"]);
    let shown = machine.json(&["attention", "--as", "webdev"]);
    assert_eq!(shown["mode"], "dnd");
    assert_eq!(shown["mutedRooms"][0], "chatter");
    let roster = machine.ok(&["roster", "--as", "planner"]);
    assert!(
        roster.contains("dnd") && !roster.contains("muted"),
        "{roster}"
    );
    machine.ok(&[
        "attention",
        "inherit",
        "--room",
        "chatter",
        "--as",
        "webdev",
    ]);
    assert_eq!(
        machine.json(&["attention", "--as", "webdev"])["mutedRooms"],
        serde_json::json!([])
    );
    for wrong in [
        &["attention", "loud"][..],
        &["attention", "dnd", "--room", "x"],
    ] {
        assert_eq!(machine.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_card_that_changed_is_told_with_the_day() {
    let machine = Machine::new();
    machine.ok(&["register", "--as", "reviewer", "--describe", "reviews"]);
    let first = machine.json(&["card", "reviewer", "--as", "planner"]);
    assert_eq!(
        (&first["signature"], &first["changedSince"]),
        (&"valid".into(), &serde_json::Value::Null)
    );
    machine.ok(&[
        "register",
        "--as",
        "reviewer",
        "--describe",
        "does anything",
    ]);
    let changed = machine.ok(&["card", "reviewer", "--as", "planner"]);
    assert!(changed.contains("✓, changed since 2"), "{changed}");
    let again = machine.ok(&["discover", "--as", "planner"]);
    assert!(!again.contains("changed since"), "told once: {again}");
}

#[test]
fn a_file_of_authorities_that_is_none_is_named() {
    let machine = Machine::new();
    let missing = [
        "rooms",
        "--hub",
        "wss://127.0.0.1:1",
        "--ca",
        "/no/such/ca.pem",
        "--as",
        "a",
    ];
    let done = machine.run(&missing);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(
        done.err.contains("/no/such/ca.pem") && done.err.contains("PARLER_CA"),
        "{done:?}"
    );
}
