//! Tokens: made, shown on standard output only, and ended.

use std::io::{Read as _, Write as _};

use crate::env::Machine;

/// The status of a request with a token.
fn status(url: &str, token: &str) -> u16 {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut tcp = std::net::TcpStream::connect(host).unwrap();
    let request = format!(
        "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\n\r\n"
    );
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_link_for_watching_opens_the_room_until_it_is_revoked() {
    let machine = Machine::new();
    machine.ok(&["session", "open", "--as", "planner", "--topic", "auth"]);
    let made = machine.json(&["session", "watch", "--as", "planner"]);
    let token = made["token"].as_str().unwrap();
    let link = made["url"].as_str().unwrap();
    let (page, fragment) = link.split_once('#').unwrap();
    assert_eq!(fragment, format!("watch={token}"));
    assert!(!page.contains(token));
    assert_eq!(status(&format!("{page}api/session"), token), 200);
    let whole = format!("{page}api/room/messages");
    assert_eq!(status(&whole, token), 403);
    let full = machine.json(&["session", "watch", "--full", "--as", "planner"]);
    assert_eq!(status(&whole, full["token"].as_str().unwrap()), 200);
    let id = made["id"].as_str().unwrap();
    let gone = machine.ok(&["token", "revoke", "--id", id, "--as", "planner"]);
    assert!(gone.contains("1 token revoked"), "{gone}");
    assert_eq!(status(&format!("{page}api/session"), token), 401);
    let all = machine.json(&["token", "revoke", "--room", "auth", "--as", "planner"]);
    assert_eq!(all["count"], 1);
}

#[test]
fn a_token_stands_on_standard_output_and_in_no_log() {
    let machine = Machine::new();
    machine.ok(&["session", "open", "--as", "planner", "--topic", "auth"]);
    let mut tokens = Vec::new();
    for args in [
        &["token", "--ttl", "60", "--as", "planner"][..],
        &["session", "admin", "--as", "planner"],
    ] {
        let done = machine.run(&[args, &["--json"]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        let made: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        let token = made["token"].as_str().unwrap().to_owned();
        assert!(!done.err.contains(&token), "{done:?}");
        tokens.push(token);
    }
    let text = machine.ok(&["token", "--as", "planner"]);
    assert!(
        text.contains("TOKEN: ") && text.contains("/api/directory?scope=hub"),
        "{text}"
    );
    let log = std::fs::read_to_string(machine.base().join("hub.log")).unwrap_or_default();
    for token in &tokens {
        assert!(!log.contains(token.as_str()));
    }
    let denied = machine.run(&["session", "watch", "--room", "auth", "--as", "webdev"]);
    assert_eq!(denied.code, 4, "{denied:?}");
    let unclear = machine.run(&["token", "revoke", "--as", "planner"]);
    assert_eq!(unclear.code, 2, "{unclear:?}");
}
