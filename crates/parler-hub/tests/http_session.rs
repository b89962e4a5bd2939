//! A room for who watches it: what is shown, what is not, and that nobody notices.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{Answer, RawSocket, TestHub, get, keys, texts};
use serde_json::{Value, json};

async fn watched(fields: Value) -> (TestHub, RawSocket, RawSocket, String) {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "ann", Some("lead")).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    let mut mint = json!({"op": "mint_watch", "room": "r"});
    for (key, value) in fields.as_object().unwrap() {
        mint[key] = value.clone();
    }
    let minted = a.ask(mint).await;
    let token = minted["token"]
        .as_str()
        .unwrap_or_else(|| panic!("{minted}"))
        .to_owned();
    (hub, a, b, token)
}

async fn see(hub: &TestHub, path: &str, token: &str) -> Answer {
    get(hub.addr(), path, Some(token)).await
}

#[tokio::test]
async fn a_watcher_sees_the_words_and_no_ids() {
    let (hub, mut a, mut b, token) = watched(json!({})).await;
    let sent = a.say("r", "hello there").await;
    b.ask(json!({"op": "presence", "status": "working", "activity": "typing"}))
        .await;
    let answer = see(&hub, "/api/session", &token).await;
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert!(
        answer
            .header("content-type")
            .starts_with("application/json")
    );
    for hidden in [
        keys(1).id().as_str(),
        keys(2).id().as_str(),
        sent["id"].as_str().unwrap(),
    ] {
        assert!(!answer.text().contains(hidden));
    }
    let mut seen = answer.json();
    let message = &seen["messages"][0];
    assert_eq!(message["seq"], sent["seq"]);
    assert_eq!(message["from"], json!({"name": "ann", "role": "lead"}));
    assert_eq!(
        message["parts"],
        json!([{"kind": "text", "text": "hello there"}])
    );
    assert_eq!(message.as_object().unwrap().len(), 4);
    for agent in seen["agents"].as_array_mut().unwrap() {
        assert!(agent["lastSeen"].is_i64());
        agent.as_object_mut().unwrap().remove("lastSeen");
    }
    assert_eq!(
        seen["agents"],
        json!([
            {"name": "ann", "role": "lead", "status": "idle", "activity": null},
            {"name": "ben", "role": null, "status": "working", "activity": "typing"},
        ])
    );
    assert_eq!(
        (&seen["room"], &seen["kind"]),
        (&json!("r"), &json!("channel"))
    );
    assert_eq!(
        (&seen["memberCount"], &seen["onlineCount"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(seen["cursor"], sent["seq"]);
    let unread = b.ask(json!({"op": "rooms"})).await;
    assert_eq!(unread["rooms"][0]["unread"], 1, "watching reads for nobody");
    assert_eq!(texts(&b.pull("r", json!({})).await), ["hello there"]);
}

#[tokio::test]
async fn counts_follow_what_is_said() {
    let (hub, mut a, mut b, token) = watched(json!({})).await;
    let empty = see(&hub, "/api/session", &token).await.json();
    assert_eq!(
        empty["stats"],
        json!({"messages": 0, "estimatedTokens": 0, "firstMessageAt": null,
               "lastMessageAt": null, "perAgent": []})
    );
    a.say("r", "12345678").await;
    a.say("r", "1").await;
    see(&hub, "/api/session", &token).await;
    b.say("r", "1234567890123456").await;
    let seen = see(&hub, "/api/session?since=1", &token).await.json();
    let stats = &seen["stats"];
    assert_eq!(
        (&stats["messages"], &stats["estimatedTokens"]),
        (&json!(3), &json!(7))
    );
    assert_eq!(
        stats["perAgent"],
        json!([{"name": "ben", "role": null, "messages": 1, "estimatedTokens": 4},
               {"name": "ann", "role": "lead", "messages": 2, "estimatedTokens": 3}])
    );
    assert_eq!(seen["messages"].as_array().unwrap().len(), 2, "after since");
    assert_eq!(stats["lastMessageAt"], seen["messages"][1]["ts"]);
    // The room begins anew under its name: so do its counts.
    a.ask(json!({"op": "delete_room", "room": "r"})).await;
    assert_eq!(see(&hub, "/api/session", &token).await.status, 401);
    a.open_channel("r").await;
    let token = a.ask(json!({"op": "mint_watch", "room": "r"})).await["token"].clone();
    let seen = see(&hub, "/api/session", token.as_str().unwrap())
        .await
        .json();
    assert_eq!(seen["stats"]["messages"], 0);
}

#[tokio::test]
async fn of_other_parts_only_the_kind_is_shown() {
    let (hub, mut a, _b, token) = watched(json!({})).await;
    let sent = a
        .ask(
            json!({"op": "send", "target": {"kind": "room", "room": "r"}, "parts": [
                {"kind": "com.parler.handoff", "next": "secret plan", "to": "ben"},
                {"kind": "data", "data": {"secret": 1}},
                {"kind": "com.parler.sig", "sig": "s", "alg": "ed25519"},
                {"kind": "com.parler.file", "blob": "cd", "name": "x.txt", "size": 7, "more": "no"},
                {"kind": "com.parler.bundle", "vcs": "git"},
                {"kind": "com.parler.observation", "type": "tool", "tool_name": "Bash",
                 "tool_input": {"command": "secret"}, "tool_output": "secret", "status": "success"},
            ]}),
        )
        .await;
    assert_eq!(sent["type"], "sent", "{sent}");
    let answer = see(&hub, "/api/session", &token).await;
    assert!(!answer.text().contains("secret"));
    assert_eq!(
        answer.json()["messages"][0]["parts"],
        json!([
            {"kind": "com.parler.handoff"},
            {"kind": "data"},
            {"kind": "com.parler.file", "file": {"blob": "cd", "name": "x.txt", "size": 7}},
            {"kind": "com.parler.bundle"},
            {"kind": "com.parler.observation", "fields": {"tool_name": "Bash"}},
        ])
    );
}

#[tokio::test]
async fn the_header_wins_over_the_query() {
    let (hub, _a, _b, token) = watched(json!({})).await;
    let with_query = format!("/api/session?token={token}");
    assert_eq!(get(hub.addr(), &with_query, None).await.status, 200);
    assert_eq!(
        get(hub.addr(), &with_query, Some("wrong")).await.status,
        401
    );
    assert_eq!(
        get(hub.addr(), "/api/session?token=wrong", Some(&token))
            .await
            .status,
        200
    );
    assert_eq!(
        get(hub.addr(), "/api/session?since=abc", Some(&token))
            .await
            .status,
        400
    );
    for token in [None, Some("wrong")] {
        let refused = get(hub.addr(), "/api/session", token).await;
        assert_eq!(refused.status, 401);
        assert!(
            refused.json()["error"]
                .as_str()
                .unwrap()
                .contains("watch token")
        );
    }
}

#[tokio::test]
async fn the_whole_room_is_for_a_full_token() {
    let (hub, mut a, mut b, summary) = watched(json!({})).await;
    for path in [
        "/api/room/messages",
        "/api/room/roster",
        "/api/room/cards",
        "/api/room/events",
    ] {
        assert_eq!(see(&hub, path, &summary).await.status, 403, "{path}");
        assert_eq!(get(hub.addr(), path, None).await.status, 401, "{path}");
        let in_query = format!("{path}?token={summary}");
        assert_eq!(
            get(hub.addr(), &in_query, None).await.status,
            401,
            "header only"
        );
    }
    let full = a
        .ask(json!({"op": "mint_watch", "room": "r", "full": true}))
        .await;
    let full = full["token"].as_str().unwrap();
    let first = a.say("r", "one").await;
    b.say("r", "two").await;
    let card = json!({"id": keys(2).id().as_str(), "name": "ben", "kind": "agent"});
    b.ask(json!({"op": "register", "card": card})).await;
    let all = see(&hub, "/api/room/messages", full).await;
    assert_eq!(all.header("cache-control"), "no-store");
    let pulled = a.pull("r", json!({"since": 0})).await;
    assert_eq!(all.json()["messages"], pulled["messages"]);
    assert_eq!(all.json()["cursor"], pulled["cursor"]);
    let path = format!("/api/room/messages?after={}&limit=1", first["seq"]);
    assert_eq!(texts(&see(&hub, &path, full).await.json()), ["two"]);
    let roster = see(&hub, "/api/room/roster", full).await.json();
    let member = &roster["members"][1];
    assert_eq!(
        (&member["name"], &member["unread"]),
        (&json!("ben"), &json!(2))
    );
    assert_eq!(member["id"], keys(2).id().as_str());
    let cards = see(&hub, "/api/room/cards", full).await.json();
    assert_eq!(cards["cards"][0]["card"]["name"], "ben");
    assert_eq!(
        see(&hub, "/api/session", full).await.status,
        200,
        "a full token opens the summary too"
    );
}
