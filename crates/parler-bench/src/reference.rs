//! What the machine itself takes, measured in the same run: a sync of an appended page, and a bare
//! WebSocket echo over the same stack.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Instant;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;

use crate::stats::{Row, Times};
use crate::wire::Socket;

/// Size of a database page.
const PAGE: [u8; 4096] = [7; 4096];

/// fdatasync after each appended page, in the folder where databases of this run live.
pub fn sync_of_a_page(rounds: usize) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir()?;
    let mut file = std::fs::File::create(folder.path().join("pages"))?;
    let mut times = Times::default();
    for _ in 0..rounds {
        file.write_all(&PAGE)?;
        let began = Instant::now();
        file.sync_data()?;
        times.add(began.elapsed());
    }
    Ok(Row::of(
        "reference: fdatasync of an appended page",
        &mut times,
    ))
}

/// Round trip of 256 characters through a bare echo server.
pub async fn echo(rounds: usize) -> anyhow::Result<Row> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let mut ws = tokio_tungstenite::accept_async(tcp).await?;
        while let Some(Ok(message)) = ws.next().await {
            if message.is_close() {
                break;
            }
            ws.send(message).await?;
        }
        anyhow::Ok(())
    });
    let mut socket = Socket::open(addr).await?;
    let body = "x".repeat(256);
    let mut times = Times::default();
    for _ in 0..rounds {
        let began = Instant::now();
        socket.post(body.clone()).await?;
        socket.text().await?;
        times.add(began.elapsed());
    }
    server.abort();
    Ok(Row::of(
        "reference: bare WebSocket echo, round trip",
        &mut times,
    ))
}
