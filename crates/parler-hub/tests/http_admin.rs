//! What an owner decides from the hub's own page.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{Answer, RawSocket, TestHub, http, keys};
use serde_json::{Value, json};

async fn owned() -> (TestHub, RawSocket, String, String) {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let invite = json!({"op": "invite", "kind": "channel", "room": "r", "requireApproval": true});
    let code = a.ask(invite).await["code"].as_str().unwrap().to_owned();
    let minted = a.ask(json!({"op": "mint_admin", "room": "r"})).await;
    let token = minted["token"].as_str().unwrap().to_owned();
    (hub, a, code, token)
}

async fn post(hub: &TestHub, act: &str, token: &str, body: Value, more: &[(&str, &str)]) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    headers.retain(|h| !more.iter().any(|m| m.0 == h.0));
    headers.extend(more);
    let path = format!("/api/room/admin/{act}");
    http(hub.addr(), "POST", &path, &headers, &body.to_string()).await
}

fn agent(n: u8) -> Value {
    json!({"agent": keys(n).id().as_str()})
}

#[tokio::test]
async fn an_owner_decides_from_the_page() {
    let (hub, mut a, code, token) = owned().await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let mut c = RawSocket::login(hub.addr(), &keys(3), "cat", None).await;
    assert_eq!(b.redeem(&code).await["type"], "join_pending");
    assert_eq!(c.redeem(&code).await["type"], "join_pending");
    let waiting = post(&hub, "requests", &token, json!({}), &[]).await.json();
    assert_eq!(waiting["requests"][0]["name"], "ben");
    let own = format!("http://{}", hub.addr());
    let done = post(&hub, "approve", &token, agent(2), &[("origin", &own)]).await;
    assert_eq!(
        (done.status, done.header("access-control-allow-origin")),
        (200, "")
    );
    assert_eq!(done.header("cache-control"), "no-store");
    assert_eq!(b.redeem(&code).await["type"], "joined");
    assert_eq!(post(&hub, "deny", &token, agent(3), &[]).await.status, 200);
    assert_eq!(c.redeem(&code).await["code"], "not_authorized");
    assert_eq!(
        post(&hub, "approve", &token, agent(4), &[]).await.status,
        409
    );
    let removed = post(&hub, "remove", &token, agent(2), &[]).await;
    assert_eq!(removed.json()["type"], "removed");
    assert_eq!(b.pull("r", json!({})).await["code"], "not_member");
    a.ask(json!({"op": "mint_watch", "room": "r"})).await;
    let all = post(&hub, "revoke", &token, json!({"all": "tokens"}), &[]).await;
    assert_eq!(all.json()["count"], 1);
    let codes = post(&hub, "revoke", &token, json!({"all": "invites"}), &[]).await;
    assert_eq!(codes.json()["count"], 1);
    assert_eq!(c.redeem(&code).await["code"], "invalid_invite");
}

#[tokio::test]
async fn no_page_of_somebody_else_decides() {
    let (hub, _a, _code, token) = owned().await;
    for foreign in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "file://"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = post(&hub, "requests", &token, json!({}), &[foreign]).await;
        assert_eq!(refused.status, 403, "{foreign:?}");
        assert_eq!(refused.header("access-control-allow-origin"), "");
    }
    // What a form could send.
    let form = ("content-type", "text/plain");
    assert_eq!(
        post(&hub, "requests", &token, json!({}), &[form])
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn only_an_admin_token_of_who_owns_the_room_decides() {
    let (hub, mut a, code, token) = owned().await;
    let watch = a
        .ask(json!({"op": "mint_watch", "room": "r", "full": true}))
        .await;
    let watch = watch["token"].as_str().unwrap();
    assert_eq!(
        post(&hub, "requests", watch, json!({}), &[]).await.status,
        403
    );
    assert_eq!(
        post(&hub, "requests", "wrong", json!({}), &[]).await.status,
        401
    );
    assert_eq!(post(&hub, "requests", "", json!({}), &[]).await.status, 401);
    assert_eq!(
        post(&hub, "explode", &token, json!({}), &[]).await.status,
        404
    );
    let get = http(hub.addr(), "GET", "/api/room/admin/requests", &[], "").await;
    assert_eq!(get.status, 405);
    for bad in [json!({}), json!([1]), json!({"agent": 5})] {
        assert_eq!(post(&hub, "approve", &token, bad, &[]).await.status, 400);
    }
    let big = json!({"agent": "x".repeat(20_000)});
    assert_eq!(post(&hub, "approve", &token, big, &[]).await.status, 400);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let reads = http(hub.addr(), "GET", "/api/session", &headers, "").await;
    assert_eq!(
        reads.status, 401,
        "an admin token decides, and does not read"
    );
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    b.redeem(&code).await;
    assert_eq!(
        post(&hub, "approve", &token, agent(2), &[]).await.status,
        200
    );
    a.ask(json!({"op": "transfer_owner", "room": "r", "agent": keys(2).id().as_str()}))
        .await;
    assert_eq!(
        post(&hub, "requests", &token, json!({}), &[]).await.status,
        401
    );
}
