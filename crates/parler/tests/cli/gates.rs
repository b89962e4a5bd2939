//! What an owner decides, finding agents by their cards, and memory.

use crate::env::Machine;

/// A gated session of `planner`, and `webdev` waiting to be let in; its id.
fn waiting(machine: &Machine) -> String {
    let args = [
        "session",
        "open",
        "--as",
        "planner",
        "--topic",
        "vetted",
        "--approval",
    ];
    let key = machine.json(&args)["key"].as_str().unwrap().to_owned();
    let done = machine.run(&[
        "session", "join", &key, "--as", "webdev", "--role", "frontend",
    ]);
    assert_eq!(done.code, 7, "{done:?}");
    machine.json(&["whoami", "--as", "webdev"])["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn an_owner_sees_who_waits_and_lets_in() {
    let machine = Machine::new();
    let id = waiting(&machine);
    let listed = machine.ok(&["session", "requests", "--as", "planner"]);
    assert!(
        listed.contains("webdev (frontend)") && listed.contains(&id),
        "{listed}"
    );
    machine.ok(&["session", "approve", &id, "--as", "planner"]);
    let roster = machine.ok(&["roster", "--as", "planner"]);
    assert!(roster.contains("webdev (frontend)"), "{roster}");
    let none = machine.ok(&["session", "requests", "--as", "planner"]);
    assert!(none.contains("nobody waits"), "{none}");
}

#[test]
fn who_is_refused_is_told_so_and_a_name_is_no_id() {
    let machine = Machine::new();
    let id = waiting(&machine);
    let named = machine.run(&["session", "deny", "webdev", "--as", "planner"]);
    assert_eq!(named.code, 2, "{named:?}");
    assert!(named.err.contains("56 characters"), "{named:?}");
    machine.ok(&["session", "deny", &id, "--as", "planner"]);
    let own = machine.run(&[
        "session", "approve", &id, "--room", "vetted", "--as", "webdev",
    ]);
    assert_eq!(own.code, 4, "{own:?}");
    assert!(own.err.contains("owner"), "{own:?}");
}

#[test]
fn members_leave_are_removed_and_rooms_end() {
    let machine = Machine::new();
    machine.session("auth");
    let owner = machine.run(&["leave", "--as", "planner"]);
    assert_eq!(owner.code, 4, "{owner:?}");
    machine.ok(&["leave", "--as", "webdev"]);
    let gone = machine.run(&["roster", "--room", "auth", "--as", "webdev"]);
    assert_ne!(gone.code, 0, "{gone:?}");
    let key = machine.open("auth");
    machine.ok(&["session", "join", &key, "--as", "webdev"]);
    let id = machine.json(&["whoami", "--as", "webdev"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    machine.ok(&["remove", &id, "--room", "auth", "--ban", "--as", "planner"]);
    let back = machine.run(&["session", "join", &key, "--as", "webdev"]);
    assert_eq!(back.code, 4, "{back:?}");
    machine.ok(&["delete-room", "--room", "auth", "--as", "planner"]);
    let rooms = machine.ok(&["rooms", "--as", "planner"]);
    assert!(!rooms.contains("auth"), "{rooms}");
}

#[test]
fn a_card_is_published_found_and_written_to() {
    let machine = Machine::new();
    machine.ok(&[
        "register", "--as", "reviewer", "--tag", "rust", "--skill", "review",
    ]);
    let found = machine.ok(&["discover", "rust", "--as", "planner"]);
    assert!(found.contains("reviewer") && found.contains('✓'), "{found}");
    let id = machine.json(&["whoami", "--as", "reviewer"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let card = machine.ok(&["card", &id, "--as", "planner"]);
    assert!(
        card.contains("skills: review") && card.contains(&id),
        "{card}"
    );
    let sent = machine.ok(&["send", "--to", "reviewer", "have a look", "--as", "planner"]);
    assert!(sent.contains("room 'dm."), "{sent}");
    let rooms = machine.json(&["rooms", "--as", "reviewer"]);
    let room = rooms["rooms"][0]["name"].as_str().unwrap().to_owned();
    let read = machine.ok(&["recv", "--room", &room, "--as", "reviewer"]);
    assert!(read.contains("have a look"), "{read}");
    let nobody = machine.run(&["send", "--to", "ghost", "hello", "--as", "planner"]);
    assert_eq!(nobody.code, 5, "{nobody:?}");
}

#[test]
fn facts_are_kept_and_found_by_members() {
    let machine = Machine::new();
    machine.session("auth");
    let said = machine.ok(&["remember", "C++ builds need clang", "--as", "planner"]);
    assert!(said.contains("for you alone"), "{said}");
    machine.ok(&[
        "remember", "--room", "auth", "--key", "ttl", "tokens", "live", "an", "hour", "--as",
        "planner",
    ]);
    let again = [
        "remember", "--room", "auth", "--key", "ttl", "-", "--as", "planner",
    ];
    let again = machine.feed(machine.command(&again), b"tokens live\na day");
    assert_eq!(again.code, 0, "{again:?}");
    let own = machine.ok(&["recall", "C++", "--as", "planner"]);
    assert_eq!(own, "[1] private you: C++ builds need clang\n");
    let id = machine.json(&["whoami", "--as", "planner"])["id"].clone();
    let short = &id.as_str().unwrap()[50..];
    let theirs = machine.ok(&["recall", "tokens", "--as", "webdev"]);
    assert_eq!(
        theirs,
        format!("[1] #auth ·{short} (ttl): tokens live\n    a day\n")
    );
    let found = machine.json(&[
        "recall", "--key", "ttl", "--room", "auth", "--limit", "3", "--as", "webdev",
    ]);
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    assert_eq!(found["hits"][0]["author"], id);
    assert_eq!(found["hits"][0]["rank"], 1);
    let private = machine.ok(&["recall", "clang", "--as", "webdev"]);
    assert!(private.contains("no fact matches"), "{private}");
    let foreign = machine.run(&["recall", "x", "--room", "nowhere", "--as", "webdev"]);
    assert_ne!(foreign.code, 0, "{foreign:?}");
    let nothing = machine.run(&["recall", "--as", "webdev"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
}
