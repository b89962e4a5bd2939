//! Blobs over the client: with the hub of this workspace, with a line that breaks, and with hubs
//! that are older or hostile.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Conn, FakeHub, error};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Fetched};
use parler_protocol::{BlobId, ErrorCode, Invite, RoomKind, Target};
use parler_testkit::{TestHub, keys};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

const MAX: u64 = 26_214_400;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

fn id(bytes: &[u8]) -> BlobId {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    BlobId::parse(&hex).unwrap()
}

fn room() -> Target {
    Target::Room { room: "r".into() }
}

async fn client(url: &str, n: u8) -> Client {
    let options = ClientOptions::new(Endpoint::new(url), keys(n), "ann");
    Client::connect(options).await.unwrap()
}

async fn in_a_room(url: &str) -> Client {
    let client = client(url, 1).await;
    let invite = Invite {
        kind: RoomKind::Channel,
        room: Some("r".into()),
        ttl_secs: None,
        max_uses: None,
        require_approval: false,
    };
    client.invite(invite).await.unwrap();
    client
}

#[tokio::test]
async fn bytes_go_to_a_hub_and_come_back() {
    let hub = TestHub::start().await;
    let a = in_a_room(&hub.url()).await;
    for size in [0, 1, 262_144, 1_000_003] {
        let bytes = pattern(size);
        let stored = a.put_blob_bytes(room(), &bytes, Some("text/x")).await;
        assert_eq!(stored.unwrap().id, id(&bytes).as_str());
        let mut got = Vec::new();
        let fetched = a.get_blob(&id(&bytes), &mut got, MAX).await.unwrap();
        let expected = Fetched {
            size: size as u64,
            media_type: Some("text/x".into()),
        };
        assert_eq!(fetched, expected);
        assert!(got == bytes);
    }
    // The client's own connection went on meanwhile.
    a.ping().await.unwrap();
    // A source is read from its beginning.
    let mut file = Cursor::new(b"from a file".to_vec());
    file.set_position(5);
    a.put_blob(room(), &mut file, None).await.unwrap();
    let mut got = Vec::new();
    let blob = id(b"from a file");
    let fetched = a.get_blob(&blob, &mut got, MAX).await.unwrap();
    assert_eq!(
        (got.as_slice(), fetched.media_type),
        (&b"from a file"[..], None)
    );
}

#[tokio::test]
async fn refusals_come_with_the_hubs_code() {
    let hub = TestHub::with(|config| config.limits.max_blob_bytes = 100).await;
    let (a, b) = (in_a_room(&hub.url()).await, client(&hub.url(), 2).await);
    let failed = a.put_blob_bytes(room(), &pattern(101), None).await;
    assert_eq!(failed.unwrap_err().code(), Some(&ErrorCode::TooLarge));
    let failed = b.put_blob_bytes(room(), b"abc", None).await;
    assert_eq!(failed.unwrap_err().code(), Some(&ErrorCode::NotMember));
    a.put_blob_bytes(room(), b"abc", None).await.unwrap();
    let mut got = Vec::new();
    let failed = b.get_blob(&id(b"abc"), &mut got, MAX).await;
    assert_eq!(failed.unwrap_err().code(), Some(&ErrorCode::NotAuthorized));
    let failed = a.get_blob(&id(b"abd"), &mut got, MAX).await;
    assert_eq!(failed.unwrap_err().code(), Some(&ErrorCode::UnknownBlob));
    let failed = a.get_blob(&id(b"abc"), &mut got, 2).await;
    assert!(matches!(
        failed,
        Err(ClientError::ReplyTooLarge { limit: 2, .. })
    ));
    assert!(got.is_empty());
}

/// A line to a hub that breaks whenever so many bytes went over it, either way.
async fn brittle(hub: &TestHub, bytes: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("parler://{}", listener.local_addr().unwrap());
    let (addr, lines) = (hub.addr(), Arc::new(AtomicUsize::new(0)));
    let opened = lines.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            opened.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let far = TcpStream::connect(addr).await.unwrap();
                let (mut near, mut far) = (Limited::new(near, bytes), Limited::new(far, bytes));
                // Either way it is over.
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (url, lines)
}

/// A stream that fails after so many bytes were read from it.
struct Limited {
    io: TcpStream,
    left: usize,
}

impl Limited {
    fn new(io: TcpStream, left: usize) -> Self {
        Limited { io, left }
    }
}

impl tokio::io::AsyncRead for Limited {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        out: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if self.left == 0 {
            return std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        let before = out.filled().len();
        let polled = std::pin::Pin::new(&mut self.io).poll_read(cx, out);
        let read = out.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        polled
    }
}

impl tokio::io::AsyncWrite for Limited {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_go_on_where_a_broken_line_left_them() {
    let hub = TestHub::start().await;
    in_a_room(&hub.url()).await;
    let bytes = pattern(3_000_000);
    let (url, lines) = brittle(&hub, 1_200_000).await;
    // The same agent over that line.
    let a = client(&url, 1).await;
    let stored = a.put_blob_bytes(room(), &bytes, None).await.unwrap();
    assert_eq!(stored.id, id(&bytes).as_str());
    let up = lines.load(Ordering::SeqCst);
    assert!(up >= 4, "{up} lines, the client's own included");
    let mut got = Vec::new();
    a.get_blob(&id(&bytes), &mut got, MAX).await.unwrap();
    assert!(got == bytes);
    assert!(lines.load(Ordering::SeqCst) >= up + 3);
}

#[tokio::test]
async fn a_hub_without_chunks_gets_and_gives_one_message() {
    let bytes = pattern(600_000);
    let expected = bytes.clone();
    let hub = FakeHub::start(move |mut conn: Conn| {
        let bytes = expected.clone();
        async move {
            conn.login().await;
            while let Some(frame) = conn.hear().await {
                if frame["op"] == "put_blob" {
                    conn.say(json!({"type":"blob_ready","id":frame["sha256"]}))
                        .await;
                    let got = conn.hear_bytes().await.unwrap();
                    assert!(got == bytes);
                    let stored =
                        json!({"type":"blob_stored","id":frame["sha256"],"size":got.len()});
                    conn.say(stored).await;
                } else {
                    let size = bytes.len();
                    let incoming = json!({"type":"blob_incoming","id":frame["id"],"size":size});
                    conn.say(incoming).await;
                    conn.send(Message::binary(bytes.clone())).await;
                }
            }
        }
    })
    .await;
    let a = client(&hub.url(), 1).await;
    a.put_blob_bytes(room(), &bytes, None).await.unwrap();
    let mut got = Vec::new();
    a.get_blob(&id(&bytes), &mut got, MAX).await.unwrap();
    assert!(got == bytes);
}

#[tokio::test]
async fn a_hub_that_lies_about_bytes_is_told_apart() {
    let good = id(b"good");
    let wanted = good.clone();
    let hub = FakeHub::start(move |mut conn: Conn| {
        let wanted = wanted.clone();
        async move {
            conn.login().await;
            // One try each: connection 0 is the client's own.
            let (size, offset, bytes): (u64, Option<u64>, Vec<&[u8]>) = match conn.n {
                1 => (4, Some(0), vec![b"evil"]),
                2 => (4, None, vec![b"evil"]),
                3 => (4, Some(0), vec![b"toolong"]),
                4 => (4, Some(0), vec![b"g", b""]),
                5 => (4, None, vec![b"goo"]),
                6 => (4, Some(1), vec![b"ood"]),
                7 => (u64::MAX, Some(0), vec![]),
                _ => (0, None, vec![]),
            };
            while let Some(frame) = conn.hear().await {
                if frame["op"] != "get_blob" {
                    conn.say(error(None, "no")).await;
                    continue;
                }
                let mut incoming = json!({"type":"blob_incoming","id":wanted.as_str(),"size":size});
                if let Some(offset) = offset {
                    incoming["offset"] = offset.into();
                }
                conn.say(incoming).await;
                for bytes in &bytes {
                    conn.send(Message::binary(bytes.to_vec())).await;
                }
            }
        }
    })
    .await;
    let a = client(&hub.url(), 1).await;
    for n in 1..=7 {
        let failed = a.get_blob(&good, &mut Vec::new(), MAX).await.unwrap_err();
        let fits = match n {
            1 | 2 => matches!(failed, ClientError::WrongBytes { .. }),
            7 => matches!(failed, ClientError::ReplyTooLarge { .. }),
            _ => matches!(failed, ClientError::Unexpected { .. }),
        };
        assert!(fits, "{n}: {failed:?}");
    }
}
