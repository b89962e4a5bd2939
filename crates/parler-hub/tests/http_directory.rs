//! Cards over HTTP: public ones for everybody, private ones for who has a directory token.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{RawSocket, TestHub, get, http, keys};
use serde_json::{Value, json};

const PATH: &str = "/api/directory?scope=hub";

/// A hub with a public card of agent 1 and a private one of agent 2; a directory token.
async fn registered() -> (TestHub, RawSocket, String) {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "alpha", None).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "hidden", None).await;
    for (socket, n, name, visibility) in [
        (&mut a, 1, "alpha", "public"),
        (&mut b, 2, "hidden", "private"),
    ] {
        let card =
            json!({"id": keys(n).id().as_str(), "name": name, "kind": "agent", "tags": ["x"]});
        socket
            .ask(json!({"op": "register", "card": card, "visibility": visibility}))
            .await;
    }
    let minted = a.ask(json!({"op": "mint_directory_token"})).await;
    let token = minted["token"].as_str().unwrap().to_owned();
    (hub, a, token)
}

fn names(cards: &Value, at: &str) -> Vec<String> {
    let name = |card: &Value| card.pointer(at).unwrap().as_str().unwrap().to_owned();
    let mut names: Vec<_> = cards.as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

#[tokio::test]
async fn private_cards_are_for_who_has_a_token() {
    let (hub, mut a, token) = registered().await;
    let list = async |path: &str, token: Option<&str>| get(hub.addr(), path, token).await;
    let open = list("/api/directory", None).await.json();
    assert_eq!(names(&open, "/card/name"), ["alpha"]);
    let looked_up = a
        .ask(json!({"op": "lookup", "id": keys(1).id().as_str()}))
        .await;
    assert_eq!(open[0], looked_up["entry"]);
    let all = list(PATH, Some(&token)).await.json();
    assert_eq!(names(&all, "/card/name"), ["alpha", "hidden"]);
    let in_query = format!("{PATH}&token={token}");
    for (path, token) in [
        (PATH, None),
        (PATH, Some("nonsense")),
        (in_query.as_str(), None),
    ] {
        let refused = list(path, token).await;
        assert_eq!(refused.status, 401);
        assert!(
            refused.json()["error"]
                .as_str()
                .unwrap()
                .contains("directory token")
        );
    }
    for n in [2, 3] {
        let path = format!("/api/agents/{}", keys(n).id());
        let none = list(&path, None).await;
        assert_eq!(none.status, 404);
        assert_eq!(none.json(), json!({"error": "no such public agent"}));
        assert_eq!(
            list(&path, Some(&token)).await.status,
            if n == 2 { 200 } else { 404 }
        );
    }
    assert_eq!(list("/api/directory?limit=abc", None).await.status, 400);
    assert_eq!(
        list("/api/directory?limit=0&q=ALPHA&tag=X", None)
            .await
            .json()[0]["card"]["name"],
        "alpha"
    );
}

#[tokio::test]
async fn a_watch_token_opens_no_directory_and_a_directory_token_no_room() {
    let (hub, mut a, token) = registered().await;
    a.open_channel("r").await;
    let watch = a
        .ask(json!({"op": "mint_watch", "room": "r", "full": true}))
        .await;
    let watch = watch["token"].as_str();
    assert_eq!(get(hub.addr(), PATH, watch).await.status, 401);
    assert_eq!(
        get(hub.addr(), "/api/session", Some(&token)).await.status,
        401
    );
    assert_eq!(
        get(hub.addr(), "/api/room/messages", Some(&token))
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn guessing_tokens_is_slow_and_locks_nobody_out() {
    let (hub, _a, token) = registered().await;
    let mut seen = Vec::new();
    for n in 0..70 {
        let paths = [PATH, "/api/session", "/api/room/roster"];
        let guess = format!("guess{n}");
        seen.push(get(hub.addr(), paths[n % 3], Some(&guess)).await.status);
    }
    assert_eq!(seen.iter().filter(|s| **s == 401).count(), 60);
    assert!(seen[60..].iter().all(|s| *s == 429), "{seen:?}");
    let refused = get(hub.addr(), PATH, Some("one more")).await;
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(get(hub.addr(), PATH, Some(&token)).await.status, 200);
    assert_eq!(get(hub.addr(), PATH, None).await.status, 401, "no guess");
}

#[tokio::test]
async fn the_same_cards_for_a2a_claim_nothing_that_is_not_there() {
    let (hub, _a, token) = registered().await;
    let path = format!("/a2a/agents/{}", keys(1).id());
    let card = get(hub.addr(), &path, None).await.json();
    assert_eq!(card["url"], format!("http://{}{path}", hub.addr()));
    assert_eq!(card["capabilities"]["streaming"], false);
    assert_eq!(card["skills"][0]["id"], "general");
    assert_eq!(card["parler"]["signature"], Value::Null);
    let open = get(hub.addr(), "/a2a/directory", None).await.json();
    assert_eq!(names(&open, "/name"), ["alpha"]);
    let hidden = "/a2a/directory?scope=hub";
    assert_eq!(get(hub.addr(), hidden, None).await.status, 401);
    let all = get(hub.addr(), hidden, Some(&token)).await.json();
    assert_eq!(names(&all, "/name"), ["alpha", "hidden"]);
    let spelled = [("authorization", format!("bearer {token}"))];
    let spelled: Vec<_> = spelled.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(
        http(hub.addr(), "GET", hidden, &spelled, "").await.status,
        401
    );
}
