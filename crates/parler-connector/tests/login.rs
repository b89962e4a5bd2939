//! Logging in: to the right hub, with the right proof, and giving nothing away to a wrong one.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::time::{Duration, Instant};

use common::{Conn, FakeHub, NONCE, error, keys};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Timeouts};
use parler_identity::challenge::{check_answer, prove_hub};
use parler_protocol::ErrorCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

const SECRET: &str = "correct-horse-battery-staple";

fn options(url: &str) -> ClientOptions {
    let mut options = ClientOptions::new(Endpoint::new(url), keys(1), "planner");
    options.role = Some("lead".into());
    options.timeouts = Timeouts {
        connect: Duration::from_millis(400),
        request: Duration::from_millis(800),
    };
    options
}

fn with_secret(url: &str) -> ClientOptions {
    let mut options = options(url);
    options.endpoint.secret = Some(SECRET.to_owned().into());
    options
}

/// Speaks the first frames and then hears until the client goes.
async fn hub_that_challenges_with(challenge: Value) -> FakeHub {
    FakeHub::start(move |mut conn: Conn| {
        let challenge = challenge.clone();
        async move {
            conn.hear().await;
            conn.say(challenge).await;
            conn.hold().await;
        }
    })
    .await
}

/// Nothing of the hub's log may hold the secret or a signature.
fn gave_nothing_away(hub: &FakeHub) {
    let all = serde_json::to_string(&hub.frames()).unwrap();
    assert!(!all.contains(SECRET), "{all}");
    assert!(!all.contains(r#""sig""#), "{all}");
    assert_eq!(hub.frames().len(), 1, "{all}");
}

#[tokio::test]
async fn a_login_proves_the_key_and_names_the_agent() {
    let hub = FakeHub::answering(|_, frame| vec![common::usual(frame)]).await;
    let client = Client::connect(with_secret(&hub.url())).await.unwrap();
    assert_eq!(client.id(), keys(1).id());
    assert_eq!((client.name(), client.role()), ("planner", Some("lead")));

    let hellos = hub.of("hello");
    assert_eq!(hellos.len(), 2);
    for hello in &hellos {
        assert_eq!(hello["id"], keys(1).id().as_str());
        assert_eq!(
            (&hello["name"], &hello["role"]),
            (&json!("planner"), &json!("lead"))
        );
        assert!(
            hello.get("hubNonce").is_none(),
            "no key of the hub is known"
        );
    }
    assert!(hellos[0].get("secret").is_none() && hellos[0].get("sig").is_none());
    assert_eq!(hellos[1]["secret"], SECRET);
    assert_eq!(hellos[1]["nonce"], NONCE);
    let sig = hellos[1]["sig"].as_str().unwrap();
    assert!(check_answer(keys(1).id().as_str(), NONCE, sig));
}

#[tokio::test]
async fn a_name_is_cleaned_before_it_leaves() {
    let hub = FakeHub::answering(|_, frame| vec![common::usual(frame)]).await;
    let mut options = options(&hub.url());
    options.name = "pla\u{202E}n\u{1b}ner\n ".into();
    let client = Client::connect(options).await.unwrap();
    assert_eq!(client.name(), "planner");
    assert_eq!(hub.of("hello")[1]["name"], "planner");
}

#[tokio::test]
async fn a_client_dials_only_when_it_is_used() {
    let hub = FakeHub::answering(|_, frame| vec![common::usual(frame)]).await;
    let client = Client::new(options(&hub.url()));
    tokio::task::yield_now().await;
    assert_eq!(hub.connections(), 0);
    client.ping().await.unwrap();
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn a_login_to_another_hub_that_this_agent_knows_is_not_signed() {
    // The name of the hub at parler://127.0.0.1:7071.
    let nonce = "parler-auth:v1:4fe7346c54d8:1760000060000:x";
    let challenge = json!({"type":"challenge","nonce":nonce});
    let hub = hub_that_challenges_with(challenge).await;
    let mut options = with_secret(&hub.url());
    options.endpoint.known_hubs = vec![hub.url(), "ws://localhost:7071/ws".into()];
    let refused = Client::connect(options).await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::AnothersLogin { other, .. } if other.contains("7071")),
        "{refused:?}"
    );
    assert!(refused.is_authentication() && !refused.retryable());
    gave_nothing_away(&hub);
}

#[tokio::test]
async fn nothing_but_a_challenge_is_signed() {
    let card = r#"{"id":"UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"}"#;
    let forged =
        r#"{"from":"U","parts":[],"target":{"kind":"room","room":"r"},"ts":1,"uid":"u","v":1}"#;
    for text in [
        card,
        forged,
        "",
        "parler-auth:v1:a:b",
        "parler-auth:v1:a:b:c:d",
        "parler-hub:v1:x:parler-auth:v1:a:b:c",
    ] {
        let hub = hub_that_challenges_with(json!({"type":"challenge","nonce":text})).await;
        let refused = Client::connect(with_secret(&hub.url())).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::BadChallenge { .. }),
            "{text}: {refused:?}"
        );
        assert!(refused.is_authentication() && !refused.retryable());
        gave_nothing_away(&hub);
    }
}

#[tokio::test]
async fn a_hub_that_does_not_prove_its_known_key_gets_no_secret() {
    let known = keys(8);
    let challenge = |hub: Option<&str>, sig: Option<String>| {
        let mut frame = json!({"type":"challenge","nonce":NONCE});
        if let Some(hub) = hub {
            frame["hub"] = json!(hub);
        }
        if let Some(sig) = sig {
            frame["hubSig"] = json!(sig);
        }
        frame
    };
    let other = keys(9);
    let known_id = known.id().as_str();
    for (case, frame) in [
        ("an old hub", challenge(None, None)),
        ("only the name", challenge(Some(known_id), None)),
        (
            "another hub",
            challenge(
                Some(other.id().as_str()),
                Some(prove_hub(&other, "abc", NONCE).unwrap()),
            ),
        ),
        (
            "a proof for another nonce",
            challenge(
                Some(known_id),
                Some(prove_hub(&known, "abc", NONCE).unwrap()),
            ),
        ),
        (
            "no signature at all",
            challenge(Some(known_id), Some("AAAA".into())),
        ),
    ] {
        let hub = hub_that_challenges_with(frame).await;
        let mut options = with_secret(&hub.url());
        options.endpoint.hub_key = Some(known_id.to_owned());
        let refused = Client::connect(options).await.unwrap_err();
        let ClientError::WrongHub { url, expected, .. } = &refused else {
            panic!("{case}: {refused:?}");
        };
        assert_eq!(expected, known_id);
        assert!(url.contains(&hub.addr.to_string()));
        gave_nothing_away(&hub);
    }
}

#[tokio::test]
async fn a_hub_that_proves_its_known_key_gets_the_secret() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        let hello = conn.hear().await.unwrap();
        let hub_nonce = hello["hubNonce"].as_str().unwrap();
        let proof = prove_hub(&keys(8), hub_nonce, NONCE).unwrap();
        conn.say(
            json!({"type":"challenge","nonce":NONCE,"hub":keys(8).id().as_str(),
            "hubSig":proof}),
        )
        .await;
        let hello = conn.hear().await.unwrap();
        conn.say(json!({"type":"welcome","id":hello["id"],"name":hello["name"]}))
            .await;
        conn.hold().await;
    })
    .await;
    let mut options = with_secret(&hub.url());
    options.endpoint.hub_key = Some(keys(8).id().to_string());
    let first = Client::connect(options.clone()).await.unwrap();
    let second = Client::connect(options).await.unwrap();
    drop((first, second));

    let hellos = hub.of("hello");
    assert_eq!(hellos[1]["secret"], SECRET);
    assert!(hellos[1].get("hubNonce").is_none());
    assert_ne!(
        hellos[0]["hubNonce"], hellos[2]["hubNonce"],
        "a new one each time"
    );
}

#[tokio::test]
async fn a_refused_login_is_told_by_its_kind() {
    let refusing = |frame: Value| {
        FakeHub::start(move |mut conn: Conn| {
            let frame = frame.clone();
            async move {
                conn.hear().await;
                conn.say(json!({"type":"challenge","nonce":NONCE})).await;
                conn.hear().await;
                conn.say(frame).await;
                conn.hold().await;
            }
        })
    };
    let hub = refusing(error(
        Some("not_authorized"),
        "this hub requires a join secret",
    ))
    .await;
    let refused = Client::connect(options(&hub.url())).await.unwrap_err();
    assert!(matches!(
        &refused,
        ClientError::SecretRefused { sent: false, .. }
    ));
    assert_eq!(
        refused.to_string(),
        "authentication failed: this hub requires a join secret"
    );
    let refused = Client::connect(with_secret(&hub.url())).await.unwrap_err();
    assert!(matches!(
        &refused,
        ClientError::SecretRefused { sent: true, .. }
    ));

    let hub = refusing(error(
        Some("unauthenticated"),
        "signature verification failed",
    ))
    .await;
    let refused = Client::connect(options(&hub.url())).await.unwrap_err();
    assert!(matches!(
        &refused,
        ClientError::AuthenticationFailed {
            code: Some(ErrorCode::Unauthenticated),
            ..
        }
    ));
    assert!(refused.to_string().starts_with("authentication failed: "));
    assert!(!refused.retryable());

    let hub = refusing(error(Some("at_capacity"), "full")).await;
    let refused = Client::connect(options(&hub.url())).await.unwrap_err();
    assert_eq!(refused.code(), Some(&ErrorCode::AtCapacity));
    assert!(refused.retryable(), "a full hub empties");
}

#[tokio::test]
async fn a_full_hub_says_so_before_it_challenges() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.say(error(Some("at_capacity"), "too many connections"))
            .await;
        conn.close(1013, "try again later").await;
    })
    .await;
    let refused = Client::connect(options(&hub.url())).await.unwrap_err();
    assert_eq!(refused.code(), Some(&ErrorCode::AtCapacity), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_hub_is_called_that() {
    let garbage = [
        Message::text("hello, what do you want?"),
        Message::text(r#"{"jsonrpc":"2.0","id":1}"#),
        Message::text(r#"{"type":"pong"}"#),
        Message::text(r#"{"type":"welcome","id":"U","name":"x"}"#),
        Message::text(r#"{"type":"challenge","nonce":7}"#),
    ];
    for message in garbage {
        let sent = message.clone();
        let hub = FakeHub::start(move |mut conn: Conn| {
            let message = sent.clone();
            async move {
                conn.hear().await;
                conn.send(message).await;
                conn.hold().await;
            }
        })
        .await;
        let refused = Client::connect(with_secret(&hub.url())).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::NotAHub { .. }),
            "{message:?}: {refused:?}"
        );
        gave_nothing_away(&hub);
    }
}

#[tokio::test]
async fn a_web_server_is_no_hub_and_a_proxy_without_its_hub_is_an_outage() {
    for (status, outage) in [
        ("404 Not Found", false),
        ("200 OK", false),
        ("401 Unauthorized", false),
        ("502 Bad Gateway", true),
        ("503 Service Unavailable", true),
    ] {
        let url = answering_tcp(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
        let refused = Client::connect(options(&url)).await.unwrap_err();
        match refused {
            ClientError::Unreachable { .. } => assert!(outage, "{status}"),
            ClientError::NotAHub { .. } => assert!(!outage, "{status}"),
            other => panic!("{status}: {other:?}"),
        }
    }
    let busy = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n";
    let url = answering_tcp(busy.into()).await;
    let refused = Client::connect(options(&url)).await.unwrap_err();
    assert!(refused.retryable() && !refused.is_outage(), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "too many requests from this address; try again in 9 s"
    );
    let url = answering_tcp("220 mail.example ESMTP\r\n".into()).await;
    let refused = Client::connect(options(&url)).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::NotAHub { .. }),
        "{refused:?}"
    );
    let tls = url.replace("parler:", "wss:");
    let refused = Client::connect(options(&tls)).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::NotAHub { .. }),
        "{refused:?}"
    );
}

/// A listener that answers whatever it is sent with fixed text.
async fn answering_tcp(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            let _ = tcp.read(&mut asked).await;
            let _ = tcp.write_all(text.as_bytes()).await;
        }
    });
    format!("parler://{addr}")
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_an_error_at_once() {
    let hub = FakeHub::answering(|_, _| vec![]).await;
    let place = hub.stop().await;
    let url = format!("parler://{}", place.addr);
    let started = Instant::now();
    for client in [Client::new(options(&url)), Client::new(with_secret(&url))] {
        let refused = client.rooms().await.unwrap_err();
        assert!(
            matches!(refused, ClientError::Unreachable { .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains(&url[9..]), "{refused}");
    }
    assert!(started.elapsed() < Duration::from_millis(700));
}

#[tokio::test]
async fn an_address_that_is_none_is_an_error_at_once() {
    for url in ["", "parler://", "parler://a b", "ws://user@h", "h:99999"] {
        let refused = Client::connect(options(url)).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::BadUrl { .. }),
            "{url}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn silence_at_any_stage_ends_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_upgrade = format!("ws://{}", silent.local_addr().unwrap());
    let no_challenge = FakeHub::start(|conn: Conn| conn.hold()).await;
    let no_welcome = hub_that_challenges_with(json!({"type":"challenge","nonce":NONCE})).await;
    let no_reply = FakeHub::answering(|_, _| vec![]).await;
    for (stage, url, what) in [
        ("upgrade", no_upgrade.clone(), "connecting"),
        ("tls", no_upgrade.replace("ws:", "wss:"), "connecting"),
        ("challenge", no_challenge.url(), "login"),
        ("welcome", no_welcome.url(), "login"),
        ("reply", no_reply.url(), "rooms"),
    ] {
        let started = Instant::now();
        let client = Client::new(options(&url));
        let failed = client.rooms().await.unwrap_err();
        let took = started.elapsed();
        assert!(
            matches!(&failed, ClientError::TimedOut { what: w, .. } if *w == what),
            "{stage}: {failed:?}"
        );
        assert!(took < Duration::from_millis(1300), "{stage}: {took:?}");
        assert!(failed.to_string().contains(what), "{failed}");
    }
    // A read is safe to repeat, so it was tried on a second connection.
    assert_eq!(no_reply.of("rooms").len(), 2);
}
