//! A hub that pushes nothing: a real one behind a door that spoils every `subscribe`.
//!
//! The door reads the client's WebSocket frames and turns the op into one that no hub knows; what
//! comes back is the hub's own refusal.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const OP: &[u8] = br#""op":"subscribe""#;

/// The door; it closes when it is dropped.
pub struct QuietHub {
    addr: SocketAddr,
    _serving: JoinSet<()>,
}

impl QuietHub {
    /// Opens the door before a hub.
    pub async fn before(hub: SocketAddr) -> QuietHub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((inner, _)) = listener.accept().await {
                let outer = TcpStream::connect(hub).await.unwrap();
                let (from_client, mut to_client) = inner.into_split();
                let (mut from_hub, to_hub) = outer.into_split();
                open.spawn(async move {
                    // Ends with the connection, whoever ends it.
                    let _ = tokio::join!(
                        spoil(BufReader::new(from_client), to_hub),
                        copy(&mut from_hub, &mut to_client)
                    );
                });
            }
        });
        QuietHub {
            addr,
            _serving: serving,
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("parler://{}", self.addr)
    }
}

/// Passes the upgrade on as it is, then one frame after the other.
async fn spoil(mut from: BufReader<OwnedReadHalf>, mut to: OwnedWriteHalf) -> std::io::Result<()> {
    let mut line = Vec::new();
    while line != b"\r\n" {
        line.clear();
        from.read_until(b'\n', &mut line).await?;
        to.write_all(&line).await?;
    }
    loop {
        let mut head = vec![0; 2];
        from.read_exact(&mut head).await?;
        let more = match head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = vec![0; more];
        from.read_exact(&mut length).await?;
        let size = match more {
            0 => u64::from(head[1] & 0x7f),
            _ => length.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)),
        };
        let mut mask = [0; 4];
        from.read_exact(&mut mask).await?;
        let mut body = vec![0; usize::try_from(size).unwrap()];
        from.read_exact(&mut body).await?;
        let unmasked: Vec<u8> = body
            .iter()
            .zip(mask.iter().cycle())
            .map(|(b, m)| b ^ m)
            .collect();
        if let Some(at) = unmasked.windows(OP.len()).position(|bytes| bytes == OP) {
            // One letter of the op; the mask does not matter to a flipped bit.
            body[at + OP.len() - 2] ^= 1;
        }
        head.extend_from_slice(&length);
        head.extend_from_slice(&mask);
        head.extend_from_slice(&body);
        to.write_all(&head).await?;
    }
}
