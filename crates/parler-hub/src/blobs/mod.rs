//! Blobs: bytes in files, what they are and who may read them in the store.
//!
//! **No byte is there without a row, no row without its bytes.** An upload goes to a file of its
//! own, is hashed on the way, and gets its name (its hash) only when it is whole and on the disk;
//! then the row and its binding to a room are stored. Both, and every deletion, happen under a
//! lock on that hash, so that a deletion never takes what was just posted again. Between file and
//! row a note on the disk says that the file is in doubt; the next start looks at what was left so.

mod download;
mod files;
mod slots;
mod upload;

use std::path::PathBuf;
use std::sync::Arc;

use parler_protocol::{BlobId, ErrorCode};
use parler_store::{BindOutcome, BlobFound, BlobReader, BlobRow, NewBlob, Store, StoreError};

pub use download::{Bytestream, Download, Framing};
pub use files::Files;
pub use slots::{Refused, Slots};
pub use upload::{NewUpload, Piece, Upload, storage_full};

use crate::config::Config;
use crate::defaults;
use crate::error::OpError;
use crate::{HubError, now_ms};
use files::Partial;

/// Why a blob cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Nobody posted it, or it is gone.
    #[error("no such blob")]
    Unknown,
    /// It was posted to other rooms only.
    #[error("this blob was posted to rooms that you are not a member of")]
    Forbidden,
    /// The row is there and the file is not.
    #[error("blob bytes unavailable: ask whoever posted it to post it again")]
    Unavailable,
    /// The store.
    #[error("the hub could not look that up: try again")]
    Store(#[from] StoreError),
}

impl From<BlobError> for OpError {
    fn from(error: BlobError) -> Self {
        let code = match &error {
            BlobError::Unknown => ErrorCode::UnknownBlob,
            BlobError::Forbidden => ErrorCode::NotAuthorized,
            BlobError::Unavailable => ErrorCode::Internal,
            BlobError::Store(_) => {
                tracing::error!(%error, "the store failed");
                ErrorCode::Internal
            }
        };
        OpError::new(code, error.to_string())
    }
}

/// A blob that is being read.
#[derive(Debug)]
pub struct OpenBlob {
    /// What the store knows of it.
    pub row: BlobRow,
    /// Its bytes, from where they were asked for.
    pub bytes: Bytestream,
}

/// All blobs of a hub.
pub struct Blobs {
    files: Files,
    slots: Arc<Slots>,
    store: Arc<dyn Store>,
}

impl Blobs {
    /// Opens the folder; what uploads left there is thrown away.
    ///
    /// # Errors
    /// When the folder cannot be used, or another hub uses it.
    pub fn open(config: &Config, store: Arc<dyn Store>) -> Result<Self, HubError> {
        let files = Files::open(config.blob_path(), config.durability)?;
        Ok(Blobs {
            files,
            slots: Arc::new(Slots::new(config.limits.max_inflight_blob_bytes)),
            store,
        })
    }

    /// Looks at the files that were in doubt when the hub ended. Before anybody is served.
    pub async fn recover(&self) {
        for blob in self.files.doubted() {
            self.remove_file(&blob).await;
        }
    }

    /// Lets another hub have the folder; nobody is served any more.
    pub fn close(&self) {
        self.files.close();
    }

    /// Places for uploads.
    #[must_use]
    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Opens a blob for somebody, from a byte on; an `offset` past its end is its end. Notes that
    /// it was fetched.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn read(
        &self,
        reader: &BlobReader,
        id: &str,
        offset: u64,
    ) -> Result<OpenBlob, BlobError> {
        let blob = BlobId::parse(id).ok_or(BlobError::Unknown)?;
        let row = match self.store.find_blob(&blob, reader).await? {
            BlobFound::Readable(row) => row,
            BlobFound::Forbidden => return Err(BlobError::Forbidden),
            BlobFound::Unknown => return Err(BlobError::Unknown),
        };
        let bytes = self.files.read(&blob, row.size, offset).await;
        let bytes = bytes.map_err(|error| {
            tracing::error!(%error, %blob, "the bytes of a blob cannot be read");
            BlobError::Unavailable
        })?;
        let now = now_ms();
        if row
            .fetched_at
            .is_none_or(|at| now - at > defaults::FETCH_NOTE_MS)
            && let Err(error) = self.store.touch_blob(&blob, now).await
        {
            // It only goes sooner then.
            tracing::warn!(%error, %blob, "cannot note that a blob was fetched");
        }
        Ok(OpenBlob { row, bytes })
    }

    /// Gives the bytes of a finished upload their name, and stores what they are.
    ///
    /// # Errors
    /// What the disk says; nothing of it is there then.
    async fn publish(&self, partial: Partial, new: NewBlob) -> Result<BindOutcome, PublishError> {
        let blob = new.blob.clone();
        let _alone = self.files.alone(&blob).await;
        self.files.place(partial, &blob).await?;
        let outcome = self.store.bind_blob(new).await;
        if !matches!(outcome, Ok(BindOutcome::Bound)) {
            self.unlink_unknown(&blob).await;
        }
        self.files.no_doubt(&blob).await;
        Ok(outcome?)
    }

    /// One step of the collection: deletes at most [`defaults::COLLECT_BLOBS`] blobs that are
    /// bound to no room, or were neither posted nor fetched since `unused_since` (milliseconds;
    /// `None`: age does not count). Answers how many; 0 when there is none left.
    ///
    /// # Errors
    /// What the store says. What was begun is finished by the next start.
    pub async fn collect(&self, unused_since: Option<i64>) -> Result<usize, StoreError> {
        let stale = self
            .store
            .stale_blobs(unused_since, defaults::COLLECT_BLOBS)
            .await?;
        if stale.is_empty() {
            return Ok(0);
        }
        if let Err(error) = self.files.doubt(&stale).await {
            // Only a crash in the next moment would miss the notes.
            tracing::warn!(%error, "cannot note which blobs are being collected");
        }
        let gone = self.store.forget_blobs(stale.clone(), unused_since).await?;
        for blob in &stale {
            self.remove_file(blob).await;
        }
        Ok(gone.len())
    }

    /// Deletes the file of a blob that the store does not know, with uploads of it locked out.
    async fn remove_file(&self, blob: &BlobId) {
        let _alone = self.files.alone(blob).await;
        if self.unlink_unknown(blob).await {
            self.files.no_doubt(blob).await;
        }
    }

    /// The same, for who holds the lock; false when the store could not be asked.
    async fn unlink_unknown(&self, blob: &BlobId) -> bool {
        match self.store.known_blobs(vec![blob.clone()]).await {
            Ok(known) if known.is_empty() => {
                self.files.unlink(blob).await;
                true
            }
            Ok(_) => true,
            Err(error) => {
                tracing::error!(%error, %blob, "cannot tell whether a file is still needed");
                false
            }
        }
    }
}

/// Why an upload could not be stored.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Config {
    /// Where blobs lie; `None`: in a temporary folder.
    #[must_use]
    pub fn blob_path(&self) -> Option<PathBuf> {
        self.blob_dir.clone().or_else(|| {
            self.db.as_ref().map(|db| {
                let mut path = db.clone().into_os_string();
                path.push(".blobs");
                path.into()
            })
        })
    }
}
