//! HTTP over a plain socket: no client library between the test and the wire.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::SOON;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header's first value; empty when there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

/// Asks for something and reads the answer to its end.
///
/// # Panics
/// When no answer comes.
pub async fn http(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let asked = async {
        let (mut reader, status, headers) = ask(addr, method, path, headers, body).await;
        let chunked = headers
            .iter()
            .any(|h| h.0 == "transfer-encoding" && h.1 == "chunked");
        let mut body = Vec::new();
        if chunked && method != "HEAD" {
            while let Some(chunk) = chunk(&mut reader).await {
                body.extend(chunk);
            }
        } else {
            let _ = reader.read_to_end(&mut body).await;
        }
        Answer {
            status,
            headers,
            body,
        }
    };
    timeout(SOON, asked).await.expect("an answer in time")
}

/// `GET` with a bearer token, or without one.
pub async fn get(addr: SocketAddr, path: &str, token: Option<&str>) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer
        .iter()
        .map(|b| ("authorization", b.as_str()))
        .collect();
    http(addr, "GET", path, &headers, "").await
}

async fn ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (BufReader<TcpStream>, u16, Vec<(String, String)>) {
    let mut tcp = TcpStream::connect(addr).await.expect("a hub listens there");
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|h| h.0.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("host: {addr}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    let request = format!("{head}\r\n{body}");
    tcp.write_all(request.as_bytes())
        .await
        .expect("it takes it");
    let mut reader = BufReader::new(tcp);
    let status = line(&mut reader).await;
    let status = status.split(' ').nth(1).and_then(|s| s.parse().ok());
    let mut found = Vec::new();
    loop {
        let line = line(&mut reader).await;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        found.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    (reader, status.expect("a status"), found)
}

async fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    let _ = reader.read_line(&mut line).await;
    line.trim_end().to_owned()
}

/// One chunk of a chunked body; `None` at its end.
async fn chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let size = usize::from_str_radix(&line(reader).await, 16).ok()?;
    let mut bytes = vec![0; size];
    reader.read_exact(&mut bytes).await.ok()?;
    line(reader).await;
    (size > 0).then_some(bytes)
}

/// An event of a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Event {
    /// What kind.
    pub event: String,
    /// Its id.
    pub id: String,
    /// Its data, as JSON.
    pub data: Value,
}

/// An open stream of events.
pub struct EventStream {
    /// The answer's status.
    pub status: u16,
    reader: BufReader<TcpStream>,
    text: String,
}

impl EventStream {
    /// Opens a stream.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn open(addr: SocketAddr, path: &str, token: &str, headers: &[(&str, &str)]) -> Self {
        let bearer = format!("Bearer {token}");
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend(headers);
        let asked = timeout(SOON, ask(addr, "GET", path, &all, "")).await;
        let (reader, status, _) = asked.expect("an answer in time");
        EventStream {
            status,
            reader,
            text: String::new(),
        }
    }

    /// The next event with data; `None` when the stream ended.
    ///
    /// # Panics
    /// When neither happens.
    pub async fn next(&mut self) -> Option<Event> {
        timeout(SOON, self.read())
            .await
            .expect("an event, or the end")
    }

    /// The next event of a kind.
    pub async fn next_of(&mut self, kind: &str) -> Option<Event> {
        loop {
            match self.next().await {
                Some(event) if event.event != kind => {}
                other => return other,
            }
        }
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let mut event = Event::default();
                for line in block.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => event.id = id.to_owned(),
                        Some(("event", kind)) => event.event = kind.to_owned(),
                        Some(("data", data)) => {
                            event.data = serde_json::from_str(data).expect("JSON");
                        }
                        _ => {}
                    }
                }
                if !event.data.is_null() {
                    return Some(event);
                }
            }
            let chunk = chunk(&mut self.reader).await?;
            self.text
                .push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }
}
