//! Blobs: putting bytes on a hub and fetching them.
//!
//! Each transfer has a connection of its own, so that nothing waits behind it. Where the hub can
//! do it, the bytes go in chunks, and a transfer that breaks goes on where it stood; else they are
//! one message. Either way they are held against their hash, which is the blob's id: a hub cannot
//! give out other bytes under it.

use std::io::SeekFrom;
use std::pin::pin;
use std::time::Duration;

use parler_protocol::limits::{MAX_BLOB_BYTES, MAX_BLOB_CHUNK_BYTES};
use parler_protocol::{BlobId, BlobStored, ClientFrame, GetBlob, PutBlob, ServerFrame, Target};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use crate::call::unexpected;
use crate::error::words;
use crate::keepalive::open_aside;
use crate::link::{Link, Request};
use crate::reconnect::Backoff;
use crate::shared::Shared;
use crate::{Client, ClientError};

/// Bytes of one chunk: the most that a hub takes.
const CHUNK: usize = 262_144;
const _: () = assert!(CHUNK as u64 == MAX_BLOB_CHUNK_BYTES);
/// Tries without any progress before a transfer is given up.
const MAX_TRIES: u32 = 5;

/// What came with a fetched blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes.
    pub size: u64,
    /// Media type, as whoever posted it first wrote it, cleaned: a claim.
    pub media_type: Option<String>,
}

impl Client {
    /// Posts everything that `source` holds, from its beginning, to a target. It is read twice:
    /// the hash comes first. An outage is outlived; what the hub has by then is not sent again,
    /// where the hub can do that.
    ///
    /// # Errors
    /// As every call; [`ClientError::LocalFile`] when `source` cannot be read, or changes
    /// meanwhile; [`ClientError::Refused`] with the hub's code: too large, no space, no member.
    pub async fn put_blob<R>(
        &self,
        target: Target,
        source: &mut R,
        media_type: Option<&str>,
    ) -> Result<BlobStored, ClientError>
    where
        R: AsyncRead + AsyncSeek + Unpin + Send,
    {
        let (sha256, size) = hash_of(source).await?;
        let put = PutBlob {
            target,
            sha256,
            size,
            media_type: media_type.map(str::to_owned),
            chunks: Some(true),
            offset: None,
        };
        let mut tries = Tries::default();
        loop {
            match upload(self.shared(), &put, source, &mut tries).await {
                Err(error) => tries.pause(self.shared(), error).await?,
                Ok(stored) if stored.id == put.sha256 && stored.size == size => return Ok(stored),
                Ok(_) => return Err(wrong("put_blob", "it stored something else")),
            }
        }
    }

    /// The same with bytes that are in memory.
    ///
    /// # Errors
    /// As [`Client::put_blob`].
    pub async fn put_blob_bytes(
        &self,
        target: Target,
        bytes: &[u8],
        media_type: Option<&str>,
    ) -> Result<BlobStored, ClientError> {
        let mut source = std::io::Cursor::new(bytes);
        self.put_blob(target, &mut source, media_type).await
    }

    /// Fetches a blob into `sink`, at most `max` bytes. An outage is outlived; what came before it
    /// is not fetched again, where the hub can do that.
    ///
    /// `Ok` says that the bytes in `sink` are the blob's. After an error they are nothing: throw
    /// them away.
    ///
    /// # Errors
    /// As every call; [`ClientError::WrongBytes`] when the hub sent others;
    /// [`ClientError::LocalFile`] when `sink` does not take them; [`ClientError::ReplyTooLarge`]
    /// when there are more than `max`, before any came.
    pub async fn get_blob<W>(
        &self,
        blob: &BlobId,
        sink: &mut W,
        max: u64,
    ) -> Result<Fetched, ClientError>
    where
        W: AsyncWrite + Unpin + Send,
    {
        let mut state = Fetching {
            hash: Sha256::new(),
            written: 0,
            size: None,
        };
        let mut tries = Tries::default();
        let fetched = loop {
            match download(self.shared(), blob, sink, max, &mut state, &mut tries).await {
                Err(error) => tries.pause(self.shared(), error).await?,
                Ok(fetched) => break fetched,
            }
        };
        if hex(state.hash) != blob.as_str() {
            return Err(ClientError::WrongBytes {
                id: blob.to_string(),
            });
        }
        sink.flush().await.map_err(local)?;
        Ok(fetched)
    }
}

/// Counts the tries that came to nothing.
#[derive(Default)]
struct Tries {
    failed: u32,
    backoff: Backoff,
}

impl Tries {
    /// Bytes went over.
    fn progress(&mut self) {
        self.failed = 0;
        self.backoff.reset();
    }

    /// Waits before the next try, unless the error is the last word.
    async fn pause(&mut self, shared: &Shared, error: ClientError) -> Result<(), ClientError> {
        self.failed += 1;
        if !error.is_outage() || !shared.known_good.is_set() || self.failed >= MAX_TRIES {
            return Err(error);
        }
        sleep(self.backoff.next()).await;
        Ok(())
    }
}

async fn upload<R>(
    shared: &Shared,
    put: &PutBlob,
    source: &mut R,
    tries: &mut Tries,
) -> Result<BlobStored, ClientError>
where
    R: AsyncRead + AsyncSeek + Unpin + Send,
{
    const OP: &str = "put_blob";
    let mut side = Side::open(shared).await?;
    let ready = match side.ask(&ClientFrame::PutBlob(put.clone())).await? {
        ServerFrame::BlobReady(ready) if ready.id == put.sha256 => ready,
        other => return Err(unexpected(OP, &other)),
    };
    match ready.offset {
        Some(offset) if offset <= put.size => {
            source.seek(SeekFrom::Start(offset)).await.map_err(local)?;
            let mut left = put.size - offset;
            // Where nothing is left the end is still a message.
            loop {
                let chunk = read_chunk(source, left.min(MAX_BLOB_CHUNK_BYTES)).await?;
                left -= chunk.len() as u64;
                side.send(chunk).await?;
                tries.progress();
                if left == 0 {
                    break;
                }
            }
        }
        Some(_) => return Err(wrong(OP, "it wants bytes behind the end")),
        None => {
            source.rewind().await.map_err(local)?;
            let whole = read_chunk(source, put.size).await?;
            side.send(whole).await?;
        }
    }
    match side.reply(OP).await? {
        ServerFrame::BlobStored(stored) => Ok(stored),
        other => Err(unexpected(OP, &other)),
    }
}

/// How far a download came, over all its connections.
struct Fetching {
    hash: Sha256,
    written: u64,
    size: Option<u64>,
}

async fn download<W>(
    shared: &Shared,
    blob: &BlobId,
    sink: &mut W,
    max: u64,
    state: &mut Fetching,
    tries: &mut Tries,
) -> Result<Fetched, ClientError>
where
    W: AsyncWrite + Unpin + Send,
{
    const OP: &str = "get_blob";
    let mut side = Side::open(shared).await?;
    let get = GetBlob {
        id: blob.to_string(),
        chunks: Some(true),
        offset: Some(state.written),
    };
    let incoming = match side.ask(&ClientFrame::GetBlob(get)).await? {
        ServerFrame::BlobIncoming(incoming) if incoming.id == blob.as_str() => incoming,
        other => return Err(unexpected(OP, &other)),
    };
    let size = incoming.size;
    if size > max {
        return Err(ClientError::ReplyTooLarge {
            what: OP,
            limit: usize::try_from(max).unwrap_or(usize::MAX),
        });
    }
    if *state.size.get_or_insert(size) != size {
        return Err(wrong(OP, "its size changed"));
    }
    // A hub that sends one message begins anew.
    let mut skip = match incoming.offset {
        Some(offset) if offset == state.written => 0,
        Some(_) => return Err(wrong(OP, "it begins somewhere else")),
        None => state.written,
    };
    loop {
        let bytes = side.bytes(OP).await?;
        let skipped = bytes.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        skip -= skipped as u64;
        let bytes = &bytes[skipped..];
        let left = size - state.written;
        if bytes.len() as u64 > left || (bytes.is_empty() && left > 0) {
            return Err(wrong(OP, "its bytes are not as many as it said"));
        }
        sink.write_all(bytes).await.map_err(local)?;
        state.hash.update(bytes);
        state.written += bytes.len() as u64;
        tries.progress();
        if state.written == size {
            return Ok(Fetched {
                size,
                media_type: incoming.media_type.as_deref().map(words),
            });
        }
        if incoming.offset.is_none() {
            return Err(wrong(OP, "its bytes are fewer than it said"));
        }
    }
}

/// A connection beside the client's own, for one transfer.
struct Side<'a> {
    shared: &'a Shared,
    link: Link,
    patience: Duration,
}

impl<'a> Side<'a> {
    async fn open(shared: &'a Shared) -> Result<Side<'a>, ClientError> {
        Ok(Side {
            shared,
            link: open_aside(shared).await?,
            patience: shared.options.timeouts.request,
        })
    }

    fn limit(&self) -> Instant {
        Instant::now() + self.patience
    }

    async fn ask(&mut self, frame: &ClientFrame) -> Result<ServerFrame, ClientError> {
        let request = Request::new(frame)?;
        let limit = self.limit();
        let mut push = |_, _| {};
        let answer = pin!(self.link.ask(&request, limit, &mut push)).await;
        answer
            .map_err(|broken| broken.into_error(request.op, &self.shared.shown_url))?
            .into_frame(request.op)
    }

    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        // A whole blob over a slow line takes longer than a request.
        let slow = Duration::from_secs(bytes.len() as u64 / SLOWEST_BYTES_PER_SEC);
        let limit = self.limit() + slow;
        let sent = self.link.send_bytes(bytes, limit).await;
        sent.map_err(|broken| broken.into_error("put_blob", &self.shared.shown_url))
    }

    async fn reply(&mut self, op: &'static str) -> Result<ServerFrame, ClientError> {
        let limit = self.limit();
        let reply = self.link.reply(op, limit).await;
        reply
            .map_err(|broken| broken.into_error(op, &self.shared.shown_url))?
            .into_frame(op)
    }

    async fn bytes(&mut self, op: &'static str) -> Result<Vec<u8>, ClientError> {
        // The same for one that comes as a whole.
        let slow = Duration::from_secs(MAX_BLOB_BYTES / SLOWEST_BYTES_PER_SEC);
        let limit = self.limit() + slow;
        let bytes = self.link.bytes(limit).await;
        bytes.map_err(|broken| broken.into_error(op, &self.shared.shown_url))
    }
}

/// Lines slower than this are given up: what hubs count as too slow as well.
const SLOWEST_BYTES_PER_SEC: u64 = 16 * 1024;

async fn hash_of<R>(source: &mut R) -> Result<(String, u64), ClientError>
where
    R: AsyncRead + AsyncSeek + Unpin + Send,
{
    source.rewind().await.map_err(local)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut block = vec![0; CHUNK];
    loop {
        let bytes = source.read(&mut block).await.map_err(local)?;
        if bytes == 0 {
            return Ok((hex(hash), size));
        }
        hash.update(&block[..bytes]);
        size += bytes as u64;
    }
}

/// Exactly so many bytes: a source that shrank is an error here, one that changed a wrong hash at
/// the hub.
async fn read_chunk<R>(source: &mut R, bytes: u64) -> Result<Vec<u8>, ClientError>
where
    R: AsyncRead + Unpin + Send,
{
    let bytes = usize::try_from(bytes).map_err(|_| ClientError::TooLarge {
        what: "put_blob",
        bytes: usize::MAX,
        limit: CHUNK,
    })?;
    let mut chunk = vec![0; bytes];
    source.read_exact(&mut chunk).await.map_err(local)?;
    Ok(chunk)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

fn wrong(what: &'static str, got: &str) -> ClientError {
    ClientError::Unexpected {
        what,
        got: got.to_owned(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn local(error: std::io::Error) -> ClientError {
    ClientError::LocalFile(error.to_string())
}
