//! What the hub answers to anybody: pages, documents, counters, and the rules of all routes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{Answer, RawSocket, TestHub, get, http, keys};
use serde_json::json;

async fn plain(hub: &TestHub, path: &str) -> Answer {
    get(hub.addr(), path, None).await
}

#[tokio::test]
async fn methods_and_unknown_paths() {
    let hub = TestHub::start().await;
    for path in [
        "/",
        "/health",
        "/api/hub",
        "/api/directory",
        "/api/session",
        "/.well-known/agent-card.json",
    ] {
        let wrong = http(hub.addr(), "DELETE", path, &[], "").await;
        assert_eq!((wrong.status, wrong.text().as_str()), (405, ""), "{path}");
        assert!(wrong.header("allow").contains("GET"), "{path}");
    }
    for path in ["/", "/health", "/api/hub"] {
        let head = http(hub.addr(), "HEAD", path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    for path in [
        "/nope",
        "/api",
        "/metrics",
        "/api/waitlist",
        "/join",
        "/api/room",
    ] {
        let none = plain(&hub, path).await;
        assert_eq!((none.status, none.text().as_str()), (404, ""), "{path}");
    }
    assert_eq!(
        http(hub.addr(), "POST", "/api/waitlist", &[], "{}")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn every_page_may_read_what_is_public_and_none_what_is_a_rooms() {
    let hub = TestHub::with(|config| config.limits.max_http_per_min = 20).await;
    let origin = ("origin", "https://x.example");
    for path in ["/health", "/api/hub", "/api/session", "/nope", "/"] {
        let seen = http(hub.addr(), "GET", path, &[origin], "").await;
        assert_eq!(seen.header("access-control-allow-origin"), "*", "{path}");
        assert!(seen.header("vary").contains("origin"), "{path}");
        assert_eq!(seen.header("access-control-allow-credentials"), "");
        assert_eq!(seen.header("x-content-type-options"), "nosniff");
    }
    for path in [
        "/api/room/messages",
        "/api/room/events",
        "/api/room/admin/approve",
    ] {
        for method in ["GET", "OPTIONS", "POST"] {
            let own = http(hub.addr(), method, path, &[origin], "").await;
            assert_eq!(
                own.header("access-control-allow-origin"),
                "",
                "{method} {path}"
            );
            assert_eq!(own.header("access-control-allow-methods"), "");
            assert_ne!(own.status, 200, "{method} {path}");
        }
    }
    // Twenty requests are spent by now; preflights are free.
    for _ in 0..30 {
        let asked = ("access-control-request-method", "GET");
        let preflight = http(hub.addr(), "OPTIONS", "/api/session", &[origin, asked], "").await;
        assert_eq!((preflight.status, preflight.body.len()), (200, 0));
        for header in [
            "access-control-allow-methods",
            "access-control-allow-headers",
        ] {
            assert_eq!(preflight.header(header), "*");
        }
    }
}

#[tokio::test]
async fn an_address_has_a_budget_and_a_proxy_speaks_for_its_last_hop_only() {
    let hub = TestHub::with(|config| {
        config.limits.max_http_per_min = 3;
        config.trust_proxy_headers = true;
    })
    .await;
    let by = async |forwarded: &str| {
        http(
            hub.addr(),
            "GET",
            "/api/hub",
            &[("x-forwarded-for", forwarded)],
            "",
        )
        .await
    };
    for n in 0..3 {
        assert_eq!(by(&format!("10.0.0.{n}, 9.9.9.9")).await.status, 200);
    }
    let spent = by("10.0.0.77, 9.9.9.9").await;
    assert_eq!((spent.status, spent.header("retry-after")), (429, "60"));
    assert!(spent.text().starts_with("rate limit:"));
    assert_eq!(spent.header("access-control-allow-origin"), "*");
    assert_eq!(by("9.9.9.9, 10.0.0.1").await.status, 200, "another hop");
    // An IPv6 host has its whole /64.
    for n in 0..3 {
        assert_eq!(by(&format!("2001:db8::{n}")).await.status, 200);
    }
    assert_eq!(by("2001:db8::ffff:1").await.status, 429);
    assert_eq!(by("2001:db8:0:1::1").await.status, 200);
    for _ in 0..5 {
        assert_eq!(plain(&hub, "/health").await.status, 200, "never refused");
    }
}

#[tokio::test]
async fn health_looks_as_deep_as_it_is_asked_to() {
    let hub = TestHub::start().await;
    assert_eq!(plain(&hub, "/health").await.text(), "ok");
    assert_eq!(plain(&hub, "/health?deep=1").await.text(), "ok");
    hub.state().store().close().await.unwrap();
    assert_eq!(plain(&hub, "/health").await.text(), "ok");
    let deep = plain(&hub, "/health?deep=1").await;
    assert_eq!(deep.status, 503);
    assert!(
        !deep.text().contains("closed"),
        "no detail: {}",
        deep.text()
    );
}

#[tokio::test]
async fn a_failing_store_tells_no_detail() {
    let hub = TestHub::start().await;
    assert_eq!(plain(&hub, "/api/directory").await.status, 200);
    hub.state().store().close().await.unwrap();
    let failed = plain(&hub, "/api/directory").await;
    assert_eq!(failed.status, 500);
    let text = failed.json()["error"].as_str().unwrap().to_owned();
    assert!(
        text.contains("try again") && !text.contains("closed"),
        "{text}"
    );
}

#[tokio::test]
async fn counters_and_cards_are_counted_for_an_open_hub() {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    b.ask(json!({"op": "subscribe"})).await;
    for (socket, n, visibility) in [(&mut a, 1, "public"), (&mut b, 2, "private")] {
        let card = json!({"id": keys(n).id().as_str(), "name": "n", "kind": "agent"});
        let done = socket
            .ask(json!({"op": "register", "card": card, "visibility": visibility}))
            .await;
        assert_eq!(done["type"], "registered", "{done}");
    }
    a.say("r", "12345678").await;
    b.push().await;
    let seen = plain(&hub, "/api/hub").await.json();
    assert_eq!(
        (&seen["agents"], &seen["publicAgents"]),
        (&json!(2), &json!(1))
    );
    let stats = &seen["stats"];
    for (counter, value) in [
        ("liveConnections", 2),
        ("connectionsTotal", 2),
        ("messagesTotal", 1),
        ("estimatedTokensTotal", 2),
        ("pushesTotal", 1),
    ] {
        assert_eq!(stats[counter], value, "{counter}: {stats}");
    }
    a.say("r", "123").await;
    let stats = &plain(&hub, "/api/hub").await.json()["stats"];
    assert_eq!(stats["estimatedTokensTotal"], 3);
    // Since the start, and no earlier.
    let hub = hub.restart().await;
    let stats = &plain(&hub, "/api/hub").await.json()["stats"];
    assert_eq!(stats["estimatedTokensTotal"], 0);
}

#[tokio::test]
async fn a_hub_with_a_secret_counts_for_nobody() {
    let hub = TestHub::with(|config| config.join_secret = Some("top-secret-words".into())).await;
    let seen = plain(&hub, "/api/hub").await.json();
    for field in ["stats", "agents", "publicAgents"] {
        assert!(seen.get(field).is_none(), "{seen}");
    }
    let card = plain(&hub, "/.well-known/agent-card.json").await.json();
    assert!(card["parler"].get("agents").is_none(), "{card}");
    for path in [
        "/",
        "/api/hub",
        "/.well-known/parler.json",
        "/.well-known/agent-card.json",
    ] {
        let text = plain(&hub, path).await.text();
        assert!(!text.contains("top-secret-words"), "{path}");
        assert!(!text.contains("have a card"), "{path}");
    }
}

#[tokio::test]
async fn pages_hold_no_foreign_markup() {
    let hub = TestHub::with(|config| {
        config.name = "A<b>&\"c\"".into();
        config.web = Some("javascript:alert(1)".into());
    })
    .await;
    let page = plain(&hub, "/").await;
    assert!(page.text().contains("A&lt;b&gt;&amp;&quot;c&quot;") && !page.text().contains("<b>"));
    assert!(!page.text().contains("javascript:"));
    assert!(page.text().contains(&format!("ws://{}", hub.addr())));
    assert!(
        page.header("content-security-policy")
            .contains("frame-ancestors 'none'")
    );
    assert_eq!(page.header("x-frame-options"), "DENY");
    let join = plain(&hub, "/join/ABCD2345").await;
    assert!(join.text().contains("parler join ABCD2345"));
    let long = "A".repeat(65);
    assert!(
        !plain(&hub, &format!("/join/{long}"))
            .await
            .text()
            .contains(&long)
    );
}

#[tokio::test]
async fn a_request_says_where_the_hub_is_only_through_a_trusted_proxy() {
    let poisoned = [("host", "evil.example"), ("x-forwarded-proto", "https")];
    let hub = TestHub::start().await;
    let card = http(
        hub.addr(),
        "GET",
        "/.well-known/agent-card.json",
        &poisoned,
        "",
    )
    .await
    .json();
    assert_eq!(card["url"], format!("http://{}/a2a", hub.addr()));
    assert_eq!(card["capabilities"]["streaming"], false);
    let hub = TestHub::with(|config| config.trust_proxy_headers = true).await;
    let card = http(
        hub.addr(),
        "GET",
        "/.well-known/agent-card.json",
        &poisoned,
        "",
    )
    .await
    .json();
    assert_eq!(card["url"], "https://evil.example/a2a");
    let odd = [("host", "a\"><script>")];
    let card = http(hub.addr(), "GET", "/.well-known/agent-card.json", &odd, "").await;
    assert!(!card.text().contains("<script"), "{}", card.text());
}
