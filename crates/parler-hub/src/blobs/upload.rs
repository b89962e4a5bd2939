//! One upload of one connection: piece after piece into a file, until it is whole.

use bytes::Bytes;
use parler_protocol::{BlobId, BlobStored, ErrorCode, ServerFrame, Target, limits};
use parler_store::{BindOutcome, NewBlob};
use tokio::time::Instant;

use super::slots::Ticket;
use super::{PublishError, Refused};
use crate::conn::Reply;
use crate::defaults::DISK_BLOCK_BYTES;
use crate::error::OpError;
use crate::now_ms;
use crate::ops::Caller;

/// Part of a binary message.
#[derive(Debug)]
pub struct Piece {
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether the message ends with it.
    pub last: bool,
}

/// What a client wants to upload.
#[derive(Clone, Debug)]
pub struct NewUpload {
    /// Where to.
    pub target: Target,
    /// What.
    pub blob: BlobId,
    /// Bytes.
    pub size: u64,
    /// Media type.
    pub media_type: Option<String>,
    /// In chunks, or as one message.
    pub chunks: bool,
}

/// An upload whose bytes are awaited.
#[derive(Debug)]
pub struct Upload {
    ticket: Ticket,
    new: NewUpload,
    /// Bytes that were taken: written, or waiting to be.
    taken: u64,
    /// Bytes of the message that is coming in.
    message: u64,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    /// Why nothing is taken any more. What still comes is thrown away.
    failed: Option<OpError>,
    /// Whether the client was told.
    told: bool,
}

/// What came of a piece: the upload if it goes on, and an answer if there is one.
type Progress = (Option<Upload>, Reply);

impl Upload {
    /// Takes a place, and what was sent of the same upload before.
    ///
    /// # Errors
    /// When there is no place, or no file.
    pub async fn begin(caller: &Caller, new: NewUpload, anew: bool) -> Result<Self, OpError> {
        let blobs = caller.state.blobs();
        let agent = &caller.agent.id;
        let now = Instant::now();
        let what = (&new.blob, new.size);
        let ticket = blobs
            .slots()
            .reserve((agent, caller.conn), what, new.chunks, now)
            .map_err(no_place)?;
        let before = (new.chunks && !anew)
            .then(|| blobs.slots().resume(agent, &new.blob, new.size, now))
            .flatten();
        let partial = match before {
            Some(partial) => partial,
            None => blobs.files().create().await.map_err(disk)?,
        };
        let taken = partial.written();
        ticket.put(partial);
        Ok(Upload {
            ticket,
            new,
            taken,
            message: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            failed: None,
            told: false,
        })
    }

    /// The byte that has to come next.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.taken
    }

    /// Takes a piece.
    pub async fn piece(mut self, caller: &Caller, piece: Piece) -> Progress {
        let bytes = piece.bytes.len() as u64;
        self.message += bytes;
        self.taken += bytes;
        if self.failed.is_none() {
            self.failed = self.fault(piece.last);
        }
        if self.failed.is_some() {
            return self.throw_away(caller, piece.last);
        }
        if piece.last {
            self.message = 0;
        }
        self.waiting_bytes += piece.bytes.len();
        self.waiting.push(piece.bytes);
        let whole = piece.last && self.taken == self.new.size;
        if !whole && self.waiting_bytes < DISK_BLOCK_BYTES {
            return (Some(self), Reply::Nothing);
        }
        // A task of its own: it ends well when the connection breaks in the meantime, and what was
        // written by then is there for a resumed upload.
        let caller = caller.clone();
        let working = tokio::spawn(async move {
            if let Err(error) = self.write(&caller).await {
                self.failed = Some(error);
                return self.throw_away(&caller, piece.last);
            }
            if whole {
                (None, self.finish(&caller).await.into())
            } else {
                (Some(self), Reply::Nothing)
            }
        });
        working.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an upload ended early");
            (None, internal().into())
        })
    }

    /// What is wrong with the bytes that came, if anything is.
    fn fault(&self, last: bool) -> Option<OpError> {
        let protocol = |text: String| Some(OpError::new(ErrorCode::Protocol, text));
        let size = self.new.size;
        if self.taken > size || (last && !self.new.chunks && self.taken < size) {
            return protocol(format!(
                "the bytes are {} than the {size} that were announced: start again with `put_blob`",
                if self.taken > size { "more" } else { "fewer" }
            ));
        }
        if self.new.chunks && self.message > limits::MAX_BLOB_CHUNK_BYTES {
            return protocol(format!(
                "a chunk has at most {} bytes: start again with `put_blob`",
                limits::MAX_BLOB_CHUNK_BYTES
            ));
        }
        (!self.ticket.renew(Instant::now())).then(|| {
            OpError::new(
                ErrorCode::Timeout,
                "the upload took too long and lost its place: start again with `put_blob`",
            )
        })
    }

    /// After a failure: what is still on its way must not be taken for something else.
    fn throw_away(mut self, caller: &Caller, last: bool) -> Progress {
        // Its place is free at once. What a resumable one sent is of no use after a failure.
        drop(self.ticket.take());
        self.ticket.end();
        self.waiting.clear();
        let Some(error) = self.failed.clone() else {
            return (None, Reply::Nothing);
        };
        if self.new.chunks {
            // Answered once, at the failure. The rest was sent before the client heard of it.
            let told = std::mem::replace(&mut self.told, true);
            let reply = if told { Reply::Nothing } else { error.into() };
            let more = !last || self.taken < self.new.size;
            return (more.then_some(self), reply);
        }
        if last {
            return (None, error.into());
        }
        let max = caller.state.config().limits.max_blob_bytes;
        if self.message > max.saturating_add(limits::WS_MESSAGE_SLACK_BYTES) {
            return (None, Reply::TooBig);
        }
        (Some(self), Reply::Nothing)
    }

    async fn write(&mut self, caller: &Caller) -> Result<(), OpError> {
        // Without it the place was lost in the last moment.
        let partial = self.ticket.take().ok_or_else(internal)?;
        self.waiting_bytes = 0;
        let blocks = std::mem::take(&mut self.waiting);
        let partial = caller.state.blobs().files().write(partial, blocks).await;
        self.ticket.put(partial.map_err(disk)?);
        Ok(())
    }

    /// All bytes are there.
    async fn finish(self, caller: &Caller) -> Result<ServerFrame, OpError> {
        let partial = self.ticket.take().ok_or_else(internal)?;
        let NewUpload {
            target,
            blob,
            size,
            media_type,
            ..
        } = self.new;
        if !partial.is(&blob) {
            return Err(OpError::new(
                ErrorCode::Protocol,
                "the bytes have another SHA-256 than the one that was announced: \
                 start again with `put_blob`",
            ));
        }
        // Only now anything happens to the target.
        let (room, join) = crate::ops::resolve(caller, &target).await?;
        let new = NewBlob {
            agent: caller.agent.id.clone(),
            room: room.clone(),
            join,
            blob: blob.clone(),
            size,
            media_type,
            max_total: caller.state.config().limits.max_blob_dir_bytes,
            now: now_ms(),
        };
        match caller.state.blobs().publish(partial, new).await {
            Ok(BindOutcome::Bound) => Ok(ServerFrame::BlobStored(BlobStored {
                id: blob.into(),
                size,
            })),
            Ok(BindOutcome::NotMember) => Err(OpError::not_member(room.as_str())),
            Ok(BindOutcome::UnknownService) => Err(OpError::unknown_service(room.as_str())),
            Ok(BindOutcome::Denied) => Err(OpError::service_closed(room.as_str())),
            Ok(BindOutcome::Full) => Err(storage_full()),
            Err(PublishError::Disk(error)) => Err(disk(error)),
            Err(PublishError::Store(error)) => Err(error.into()),
        }
    }
}

fn no_place(refused: Refused) -> OpError {
    let text = match refused {
        Refused::Busy => "you upload something on another connection: try again when it is done",
        Refused::Full => "too many uploads at the same time: try again in a moment",
    };
    OpError::new(ErrorCode::AtCapacity, text)
}

/// The blobs of the hub are as large as they may be.
pub fn storage_full() -> OpError {
    OpError::new(
        ErrorCode::StorageFull,
        "this hub's space for blobs is used up: try again later, or with less",
    )
}

fn internal() -> OpError {
    OpError::new(
        ErrorCode::Internal,
        "the hub could not store the bytes: start again with `put_blob`",
    )
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn disk(error: std::io::Error) -> OpError {
    tracing::error!(%error, "cannot write a blob");
    if error.kind() == std::io::ErrorKind::StorageFull {
        return storage_full();
    }
    internal()
}
