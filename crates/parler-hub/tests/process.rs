//! The hub as a process: starts, refusals to start, signals, the hub on demand.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Running, command, free_addr};
use parler_hub::tls::TlsFiles;
use parler_identity::{challenge, keyfile};
use parler_testkit::{RawSocket, SOON, Seen, TestCert, keys, texts};
use serde_json::json;

/// Runs a hub that must refuse to start; what it says.
fn refused(args: &[&str]) -> String {
    let began = Instant::now();
    let mut running = Running(command(args).spawn().unwrap());
    let status = running.wait(SOON);
    assert!(!status.success(), "{status}");
    assert!(began.elapsed() < Duration::from_secs(8));
    running.log()
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let said = refused(&["--addr", &addr]);
    assert!(said.contains(&addr), "{said}");
}

#[test]
fn an_open_door_is_refused() {
    let said = refused(&["--addr", "0.0.0.0:0"]);
    assert!(said.contains("join secret"), "{said}");
}

#[test]
fn a_second_hub_on_a_database_names_the_first_and_takes_over_when_it_is_dead() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("hub.sqlite");
    let db = db.to_str().unwrap();
    let (first, second) = (free_addr(), free_addr());
    let hub = Running::start(&["--addr", &first.to_string(), "--db", db], first);
    let began = Instant::now();
    let said = refused(&["--addr", &second.to_string(), "--db", db]);
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(
        said.contains(&hub.0.id().to_string()),
        "names the holder: {said}"
    );
    assert!(
        said.contains(&first.to_string()),
        "names where it listens: {said}"
    );
    hub.signal("-KILL");
    drop(hub);
    Running::start(&["--addr", &second.to_string(), "--db", db], second);
}

#[tokio::test]
async fn sockets_that_say_nothing_keep_nobody_out() {
    let addr = free_addr();
    let _hub = Running::start(&["--addr", &addr.to_string()], addr);
    let silent: Vec<TcpStream> = (0..600)
        .map(|_| TcpStream::connect(addr).unwrap())
        .collect();
    let began = Instant::now();
    let mut socket = RawSocket::login(addr, &keys(1), "a", None).await;
    assert_eq!(socket.ask(json!({"op": "ping"})).await["type"], "pong");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(silent);
}

#[tokio::test]
async fn a_message_that_nobody_may_send_ends_the_connection() {
    let addr = free_addr();
    let args = [
        "--addr",
        &addr.to_string(),
        "--max-text-frame-bytes",
        "1000",
    ];
    let _hub = Running::start(&args, addr);
    let mut socket = RawSocket::connect(addr).await;
    socket.post_text(&"x".repeat(200_000)).await;
    let end = socket.next(SOON).await;
    assert!(
        matches!(end, Some(Seen::Close(1009) | Seen::End)),
        "{end:?}"
    );
}

#[tokio::test]
async fn sigterm_answers_parked_pulls_and_ends_well() {
    let addr = free_addr();
    let mut hub = Running::start(&["--addr", &addr.to_string()], addr);
    let mut socket = RawSocket::login(addr, &keys(1), "a", None).await;
    socket.open_channel("r").await;
    socket
        .post(json!({"op": "pull", "room": "r", "waitSecs": 60}))
        .await;
    assert_eq!(
        socket.next(Duration::from_millis(100)).await,
        None,
        "parked"
    );
    hub.signal("-TERM");
    assert_eq!(texts(&socket.reply().await).len(), 0);
    assert_eq!(socket.next(SOON).await, Some(Seen::Close(1012)));
    assert!(hub.wait(SOON).success());
}

#[test]
fn the_join_secret_is_in_no_log() {
    let addr = free_addr();
    let args = ["--addr", &addr.to_string(), "--join-secret", "s3cret-words"];
    let mut command = command(&args);
    command.env("RUST_LOG", "trace");
    let mut hub = Running(command.spawn().unwrap());
    let stderr = hub.0.stderr.take().unwrap();
    let lines = std::thread::spawn(move || {
        BufReader::new(stderr)
            .lines()
            .map_while(Result::ok)
            .collect::<Vec<_>>()
    });
    let deadline = Instant::now() + SOON;
    while TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < deadline);
    }
    hub.signal("-TERM");
    assert!(hub.wait(SOON).success());
    let lines = lines.join().unwrap();
    assert!(lines.iter().any(|l| l.contains("hub is up")));
    assert!(!lines.iter().any(|l| l.contains("s3cret")), "{lines:?}");
}

fn read(path: &Path) -> String {
    String::from_utf8(keyfile::read(path).unwrap().unwrap())
        .unwrap()
        .trim()
        .to_owned()
}

/// Waits for the hub on demand of a base home; where it listens.
fn local_addr(base: &Path) -> SocketAddr {
    let deadline = Instant::now() + SOON;
    loop {
        if let Ok(Some(port)) = keyfile::read(&base.join("hub.port")) {
            let port: u16 = String::from_utf8_lossy(&port).trim().parse().unwrap();
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if TcpStream::connect(addr).is_ok() {
                return addr;
            }
        }
        assert!(Instant::now() < deadline, "not up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn the_hub_on_demand_keeps_its_port_its_key_and_strangers_out() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let args = ["--local", "--base", base.to_str().unwrap()];
    let mut hub = Running(command(&args).spawn().unwrap());
    let addr = local_addr(&base);
    // A stranger has no secret; a client of the same user reads it, and knows the hub by its key.
    let mut stranger = RawSocket::connect(addr).await;
    assert_eq!(
        stranger.hello(&keys(1), "a", None).await["code"],
        "not_authorized"
    );
    let mut socket = RawSocket::connect(addr).await;
    let mut hello =
        json!({"op": "hello", "id": keys(1).id().as_str(), "name": "a", "hubNonce": "n1"});
    let reply = socket.ask(hello.clone()).await;
    let key = keyfile::load_key(&base.join("hub.key")).unwrap().unwrap();
    let nonce = reply["nonce"].as_str().unwrap();
    let proof = reply["hubSig"].as_str().unwrap();
    assert!(challenge::check_hub(key.id().as_str(), "n1", nonce, proof));
    hello["sig"] = challenge::answer(&keys(1), nonce).unwrap().into();
    hello["secret"] = read(&base.join("hub.secret")).into();
    assert_eq!(socket.ask(hello).await["type"], "welcome");
    let held: serde_json::Value = serde_json::from_str(&read(&base.join("hub.lock"))).unwrap();
    assert_eq!(held["pid"], hub.0.id());
    assert_eq!(held["addr"], addr.to_string());

    hub.signal("-TERM");
    assert!(hub.wait(SOON).success());
    let _again = Running(command(&args).spawn().unwrap());
    assert_eq!(
        local_addr(&base),
        addr,
        "session keys name the port: it is kept"
    );
    assert_eq!(
        keyfile::load_key(&base.join("hub.key"))
            .unwrap()
            .unwrap()
            .id(),
        key.id()
    );
}

#[test]
fn one_hub_on_demand_a_user_and_a_stranger_on_its_port_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let args = ["--local", "--base", base.to_str().unwrap()];
    let hub = Running(command(&args).spawn().unwrap());
    let addr = local_addr(&base);
    let said = refused(&args);
    assert!(
        said.contains("another hub is running") && said.contains(&hub.0.id().to_string()),
        "{said}"
    );
    drop(hub);
    let deadline = Instant::now() + SOON;
    let _stranger = loop {
        if let Ok(stranger) = TcpListener::bind(addr) {
            break stranger;
        }
        assert!(Instant::now() < deadline);
    };
    let said = refused(&args);
    assert!(
        said.contains(&addr.port().to_string()) && said.contains("another program"),
        "{said}"
    );
}

#[tokio::test]
async fn sighup_renews_the_certificate_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    let (old, new) = (TestCert::new(), TestCert::new());
    old.write(&files);
    let addr = free_addr();
    let (text, cert) = (addr.to_string(), files.cert.to_str().unwrap());
    let key = files.key.to_str().unwrap();
    let args = ["--addr", &text, "--tls-cert", cert, "--tls-key", key];
    let mut hub = Running::start(&args, addr);
    let stderr = BufReader::new(hub.0.stderr.take().unwrap());
    let (says, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            let _ = says.send(line);
        }
    });
    let heard = |words: &str| {
        while let Ok(line) = said.recv_timeout(SOON) {
            if line.contains(words) {
                return;
            }
        }
        panic!("never said: {words}");
    };
    heard("hub is up");
    RawSocket::try_connect_tls(addr, &old).await.unwrap();

    std::fs::write(&files.cert, "rubbish").unwrap();
    hub.signal("-HUP");
    heard("the old TLS certificate stays in use");
    RawSocket::try_connect_tls(addr, &old).await.unwrap();

    new.write(&files);
    hub.signal("-HUP");
    heard("was read again");
    RawSocket::try_connect_tls(addr, &new).await.unwrap();
    assert!(RawSocket::try_connect_tls(addr, &old).await.is_err());
    hub.signal("-TERM");
    assert!(hub.wait(SOON).success());
}

#[test]
fn tls_that_cannot_work_is_refused_at_the_start_and_opens_no_door() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    let (cert, key) = (files.cert.to_str().unwrap(), files.key.to_str().unwrap());
    let said = refused(&[
        "--addr",
        "127.0.0.1:0",
        "--tls-cert",
        cert,
        "--tls-key",
        key,
    ]);
    assert!(
        said.contains(cert) && said.contains("no such file"),
        "{said}"
    );
    TestCert::new().write(&files);
    std::fs::write(&files.key, "rubbish").unwrap();
    let said = refused(&[
        "--addr",
        "127.0.0.1:0",
        "--tls-cert",
        cert,
        "--tls-key",
        key,
    ]);
    assert!(said.contains(key) && said.contains("private key"), "{said}");
    let said = refused(&["--addr", "127.0.0.1:0", "--tls-cert", cert]);
    assert!(said.contains("--tls-key"), "{said}");
    // Encrypted is not closed: the boot rule holds.
    TestCert::new().write(&files);
    let said = refused(&["--addr", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key]);
    assert!(said.contains("join secret"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_an_upload_leaves_no_garbage() {
    use tokio_tungstenite::tungstenite::Message;
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("hub.sqlite");
    let tmp = folder.path().join("hub.sqlite.blobs").join("tmp");
    let addr = free_addr();
    let args = ["--addr", &addr.to_string(), "--db", db.to_str().unwrap()];
    let hub = Running::start(&args, addr);
    let mut a = RawSocket::login(addr, &keys(1), "ann", None).await;
    a.open_channel("r").await;
    let put = json!({"op": "put_blob", "target": {"kind": "room", "room": "r"}, "chunks": true,
        "sha256": "0".repeat(64), "size": 1_000_000});
    assert_eq!(a.ask(put).await["type"], "blob_ready");
    a.send(Message::binary(vec![7; 262_144])).await;
    a.ask(json!({"op": "ping"})).await;
    let left = std::fs::read_dir(&tmp).unwrap().next().unwrap().unwrap();
    assert_eq!(left.metadata().unwrap().len(), 262_144);
    drop(hub);
    // And as a kill between the file's name and its row would leave it.
    let blob = "ab".repeat(32);
    let placed = folder.path().join("hub.sqlite.blobs").join("ab");
    std::fs::create_dir(&placed).unwrap();
    std::fs::write(placed.join(&blob), b"x").unwrap();
    std::fs::write(tmp.join(format!("{blob}.doubt")), b"").unwrap();
    let _hub = Running::start(&args, addr);
    let mut a = RawSocket::login(addr, &keys(1), "ann", None).await;
    assert_eq!(a.ask(json!({"op": "ping"})).await["type"], "pong");
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&placed).unwrap().count(), 0);
}
