//! Bytes of a blob on their way out, a block at a time: what one costs in memory does not depend
//! on its size.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::Semaphore;

use super::files;
use crate::defaults::PIECE_BYTES;

/// The bytes of an open blob.
#[derive(Debug)]
pub struct Bytestream {
    jobs: Arc<Semaphore>,
    file: Option<File>,
    left: u64,
}

impl Bytestream {
    pub(super) fn new(jobs: Arc<Semaphore>, file: File, left: u64) -> Self {
        Bytestream {
            jobs,
            file: Some(file),
            left,
        }
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes, `most` of them unless fewer are left; none at the end.
    ///
    /// # Errors
    /// What the disk says; the stream is at its end then.
    pub async fn next(&mut self, most: usize) -> io::Result<Bytes> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        if most == 0 {
            return Ok(Bytes::new());
        }
        // Gone only after an error, or when a read was given up in the middle.
        let mut file = self.file.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (file, block) = files::run(&self.jobs, move || {
            let block = files::read_exactly(&mut file, most)?;
            Ok((file, block))
        })
        .await?;
        self.file = Some(file);
        self.left -= block.len() as u64;
        Ok(block)
    }

    /// The same as a stream, for HTTP.
    pub fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(Some(self), |bytes| async {
            let mut bytes = bytes?;
            match bytes.next(PIECE_BYTES).await {
                Ok(block) if block.is_empty() => None,
                Ok(block) => Some((Ok(block), Some(bytes))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

/// How a blob goes out over a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// As one binary message.
    Whole,
    /// As one binary message a piece.
    Chunks,
}

/// A blob that goes out over a socket.
#[derive(Debug)]
pub struct Download {
    /// Its bytes.
    pub bytes: Bytestream,
    /// How.
    pub framing: Framing,
}
