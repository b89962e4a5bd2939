//! TLS by the hub itself: sockets inside it, files that are renewed, files that cannot be used.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_hub::tls::{Tls, TlsFiles};
use parler_testkit::{RawSocket, SOON, TestCert, TestHub, keys, texts};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

async fn login(hub: &TestHub, cert: &TestCert, n: u8, name: &str) -> RawSocket {
    let mut socket = RawSocket::try_connect_tls(hub.addr(), cert).await.unwrap();
    let welcome = socket.hello(&keys(n), name, None).await;
    assert_eq!(welcome["type"], "welcome", "{welcome}");
    socket
}

fn files(hub: &TestHub) -> TlsFiles {
    hub.state().config().tls.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_talk_inside_tls_and_links_say_so() {
    let cert = TestCert::new();
    let hub = TestHub::start_tls(&cert).await;
    let mut ann = login(&hub, &cert, 1, "ann").await;
    let mut ben = login(&hub, &cert, 2, "ben").await;
    let invited = ann
        .ask(json!({"op": "invite", "kind": "channel", "room": "r"}))
        .await;
    let url = invited["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("{}/join/", hub.url())), "{url}");
    assert!(url.starts_with("wss://"), "{url}");
    ben.redeem(invited["code"].as_str().unwrap()).await;
    ann.say("r", "hello").await;
    assert_eq!(texts(&ben.pull("r", json!({})).await), ["hello"]);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_speak_tls_or_does_not_trust_us_gets_no_socket() {
    let cert = TestCert::new();
    let hub = TestHub::start_tls(&cert).await;
    assert!(RawSocket::try_connect(hub.addr()).await.is_err(), "plain");
    let stranger = TestCert::new();
    let refused = RawSocket::try_connect_tls(hub.addr(), &stranger).await;
    assert!(refused.is_err(), "another authority");
    login(&hub, &cert, 1, "ann").await;
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_for_new_sockets_and_old_ones_go_on() {
    let old = TestCert::new();
    let hub = TestHub::start_tls(&old).await;
    let mut ann = login(&hub, &old, 1, "ann").await;
    let new = TestCert::new();
    new.write(&files(&hub));
    hub.state().tls().unwrap().reload().unwrap();
    login(&hub, &new, 2, "ben").await;
    let gone = RawSocket::try_connect_tls(hub.addr(), &old).await;
    assert!(gone.is_err(), "the old one is not shown any more");
    assert_eq!(ann.ask(json!({"op": "ping"})).await["type"], "pong");
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_leave_the_old_certificate() {
    let cert = TestCert::new();
    let hub = TestHub::start_tls(&cert).await;
    let files = files(&hub);
    std::fs::write(&files.cert, "not a certificate").unwrap();
    let error = hub.state().tls().unwrap().reload().unwrap_err();
    assert!(error.to_string().contains("cert.pem"), "{error}");
    std::fs::remove_file(&files.key).unwrap();
    assert!(hub.state().tls().unwrap().reload().is_err());
    login(&hub, &cert, 1, "ann").await;
    hub.stop().await;
}

#[test]
fn an_error_names_the_file_and_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    let says = |words: &[&str]| {
        let error = Tls::load(files.clone()).err().unwrap().to_string();
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    };
    says(&["cert.pem", "no such file"]);
    let (one, other) = (TestCert::new(), TestCert::new());
    one.write(&files);
    assert!(Tls::load(files.clone()).is_ok());
    std::fs::write(&files.key, &other.key).unwrap();
    says(&["cert.pem", "key.pem", "does not go with"]);
    std::fs::write(&files.key, &one.cert).unwrap();
    says(&["key.pem", "no private key"]);
    std::fs::write(&files.cert, "").unwrap();
    says(&["cert.pem", "no certificate"]);
}

/// A socket that says nothing, or half a greeting, must not keep its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_that_does_not_come_ends_the_socket() {
    let cert = TestCert::new();
    let hub = TestHub::start_tls(&cert).await;
    let mut silent = TcpStream::connect(hub.addr()).await.unwrap();
    let mut half = TcpStream::connect(hub.addr()).await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    for socket in [&mut silent, &mut half] {
        let mut byte = [0];
        let ended = timeout(SOON, socket.read(&mut byte)).await;
        assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
    }
    hub.stop().await;
}
