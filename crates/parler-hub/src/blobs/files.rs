//! The folder of blobs: `<two hexadecimal digits>/<hash>`, uploads under way in `tmp`.
//!
//! Only this module touches these files, and never on an async thread. Nobody else can read them:
//! folders that are made here have mode 0700, files 0600.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use parler_protocol::BlobId;
use parler_store_sqlite::Durability;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, MutexGuard, Semaphore};

use super::download::Bytestream;
use crate::{HubError, defaults};

/// Locks over all hashes. Two of them rarely meet, and a map that grows needs tidying.
const LOCKS: usize = 64;
/// Uploads under way.
const TMP: &str = "tmp";
/// Ends the name of an upload under way.
const PART: &str = "part";
/// Ends the name of a note that a blob's file is in doubt.
const DOUBT: &str = "doubt";

/// The folder.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    locks: [Mutex<()>; LOCKS],
    jobs: Arc<Semaphore>,
    sync: bool,
    lock: std::sync::Mutex<Option<File>>,
    _temporary: Option<tempfile::TempDir>,
}

/// An upload under way: its file and what is known of it so far. The file goes with it.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    hash: Sha256,
    written: u64,
}

impl Partial {
    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether what was written is this blob.
    pub(super) fn is(&self, blob: &BlobId) -> bool {
        let digest = self.hash.clone().finalize();
        data_encoding::HEXLOWER.encode(&digest) == blob.as_str()
    }

    fn write(&mut self, blocks: &[Bytes]) -> io::Result<()> {
        for block in blocks {
            self.file.write_all(block)?;
            self.hash.update(block);
            self.written += block.len() as u64;
        }
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        if path.as_os_str().is_empty() {
            return;
        }
        let remove = move || {
            let _ = fs::remove_file(path);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn_blocking(remove);
            }
            Err(_) => remove(),
        }
    }
}

impl Files {
    /// Opens the folder, makes it if it is missing, and empties `tmp`. Without a path: a temporary
    /// one.
    ///
    /// # Errors
    /// When it cannot be used, or another hub uses it.
    pub fn open(path: Option<PathBuf>, durability: Durability) -> Result<Self, HubError> {
        let broken = |dir: &Path, reason: String| HubError::Blobs {
            dir: dir.to_owned(),
            reason,
        };
        let (dir, temporary) = match path {
            Some(dir) => (dir, None),
            None => {
                let made = tempfile::Builder::new().prefix("parler-blobs-").tempdir();
                let made = made.map_err(|e| broken(&std::env::temp_dir(), e.to_string()))?;
                (made.path().to_owned(), Some(made))
            }
        };
        let failed = |e: io::Error| broken(&dir, e.to_string());
        make_folder(&dir.join(TMP)).map_err(failed)?;
        let lock = private(OpenOptions::new().write(true).create(true))
            .open(dir.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let reason = "another hub uses it: stop that one, or use another --blob-dir";
                return Err(broken(&dir, reason.into()));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        for entry in fs::read_dir(dir.join(TMP)).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ext| ext == PART) {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(Files {
            dir,
            locks: std::array::from_fn(|_| Mutex::default()),
            jobs: Arc::new(Semaphore::new(defaults::MAX_DISK_JOBS)),
            sync: durability == Durability::Full,
            lock: std::sync::Mutex::new(Some(lock)),
            _temporary: temporary,
        })
    }

    /// Lets another hub have the folder.
    pub(super) fn close(&self) {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        lock.take();
    }

    /// Runs work with the disk on a thread where that is allowed.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        run(&self.jobs, work).await
    }

    /// Keeps everybody else from placing or deleting this blob.
    pub(super) async fn alone(&self, blob: &BlobId) -> MutexGuard<'_, ()> {
        // A hash is spread evenly already.
        let digits = u8::from_str_radix(&blob.as_str()[..2], 16).unwrap_or(0);
        self.locks[usize::from(digits) % LOCKS].lock().await
    }

    /// A file for an upload.
    pub(super) async fn create(&self) -> io::Result<Partial> {
        let tmp = self.dir.join(TMP);
        self.run(move || {
            // Somebody may have tidied up.
            make_folder(&tmp)?;
            let path = tmp.join(format!("{}.{PART}", uuid::Uuid::new_v4()));
            let file = private(OpenOptions::new().write(true).create_new(true)).open(&path)?;
            Ok(Partial {
                file,
                path,
                hash: Sha256::new(),
                written: 0,
            })
        })
        .await
    }

    /// Appends to an upload.
    pub(super) async fn write(
        &self,
        mut partial: Partial,
        blocks: Vec<Bytes>,
    ) -> io::Result<Partial> {
        self.run(move || {
            partial.write(&blocks)?;
            Ok(partial)
        })
        .await
    }

    /// Gives an upload its name. From before it has it until [`Files::no_doubt`], a note says that
    /// it is in doubt. The caller holds the lock.
    pub(super) async fn place(&self, mut partial: Partial, blob: &BlobId) -> io::Result<()> {
        let (dir, sync) = (self.dir.clone(), self.sync);
        let (note, target) = (self.note(blob), self.path(blob));
        self.run(move || {
            if sync {
                partial.file.sync_all()?;
            }
            private(OpenOptions::new().write(true).create(true)).open(&note)?;
            let folder = target.parent().unwrap_or(&dir);
            make_folder(folder)?;
            if sync {
                sync_folder(&dir.join(TMP))?;
            }
            fs::rename(&partial.path, &target)?;
            partial.path.clear();
            if sync {
                sync_folder(folder)?;
                sync_folder(&dir)?;
            }
            Ok(())
        })
        .await
    }

    /// Notes that the files of these blobs are in doubt.
    pub(super) async fn doubt(&self, blobs: &[BlobId]) -> io::Result<()> {
        let notes: Vec<PathBuf> = blobs.iter().map(|blob| self.note(blob)).collect();
        let (tmp, sync) = (self.dir.join(TMP), self.sync);
        self.run(move || {
            make_folder(&tmp)?;
            for note in notes {
                private(OpenOptions::new().write(true).create(true)).open(note)?;
            }
            if sync { sync_folder(&tmp) } else { Ok(()) }
        })
        .await
    }

    /// Takes the note away again.
    pub(super) async fn no_doubt(&self, blob: &BlobId) {
        let note = self.note(blob);
        let gone = self.run(move || remove(&note)).await;
        if let Err(error) = gone {
            // The next start looks at the file once more.
            tracing::warn!(%error, %blob, "a note about a blob stays");
        }
    }

    /// The blobs that were in doubt when the hub ended.
    pub(super) fn doubted(&self) -> Vec<BlobId> {
        let entries = fs::read_dir(self.dir.join(TMP)).into_iter().flatten();
        let names = entries
            .flatten()
            .map(|entry| PathBuf::from(entry.file_name()));
        names
            .filter(|name| name.extension().is_some_and(|ext| ext == DOUBT))
            .filter_map(|name| BlobId::parse(name.file_stem()?.to_str()?))
            .collect()
    }

    /// Deletes the file of a blob, if there is one.
    pub(super) async fn unlink(&self, blob: &BlobId) {
        let path = self.path(blob);
        if let Err(error) = self.run(move || remove(&path)).await {
            tracing::error!(%error, %blob, "cannot delete the bytes of a blob");
        }
    }

    /// Opens a blob; an error when it has not this size.
    pub(super) async fn read(
        &self,
        blob: &BlobId,
        size: u64,
        offset: u64,
    ) -> io::Result<Bytestream> {
        let path = self.path(blob);
        let offset = offset.min(size);
        let file = self
            .run(move || {
                let mut file = File::open(&path)?;
                let found = file.metadata()?;
                if !found.is_file() || found.len() != size {
                    let text = format!("{} bytes, not {size}", found.len());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                file.seek(SeekFrom::Start(offset))?;
                Ok(file)
            })
            .await?;
        Ok(Bytestream::new(Arc::clone(&self.jobs), file, size - offset))
    }

    fn path(&self, blob: &BlobId) -> PathBuf {
        self.dir.join(&blob.as_str()[..2]).join(blob.as_str())
    }

    fn note(&self, blob: &BlobId) -> PathBuf {
        self.dir.join(TMP).join(format!("{blob}.{DOUBT}"))
    }
}

/// Runs work with the disk on a thread where that is allowed, when it is its turn.
pub(super) async fn run<T: Send + 'static>(
    jobs: &Arc<Semaphore>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let turn = Arc::clone(jobs).acquire_owned().await;
    let turn = turn.map_err(|_| io::Error::other("the hub stops"))?;
    let done = tokio::task::spawn_blocking(move || {
        let result = work();
        drop(turn);
        result
    });
    done.await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

/// Reads the next bytes of a file: `most` of them, or an error.
pub(super) fn read_exactly(file: &mut File, most: usize) -> io::Result<Bytes> {
    let mut block = vec![0; most];
    file.read_exact(&mut block)?;
    Ok(block.into())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Makes the names in a folder durable. Only Unix can, and only there it is needed.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> Result<Files, HubError> {
        Files::open(Some(dir.to_owned()), Durability::Full)
    }

    fn count(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    fn blob() -> BlobId {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        BlobId::parse(hex).unwrap()
    }

    async fn abc(files: &Files) -> Partial {
        let partial = files.create().await.unwrap();
        let blocks = vec![Bytes::from_static(b"a"), Bytes::from_static(b"bc")];
        files.write(partial, blocks).await.unwrap()
    }

    #[tokio::test]
    async fn an_upload_is_nobody_elses_and_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep").join("blobs");
        let files = open(&dir).unwrap();
        let partial = abc(&files).await;
        assert!(partial.is(&blob()) && partial.written() == 3);
        assert!(files.read(&blob(), 3, 0).await.is_err());
        files.place(partial, &blob()).await.unwrap();
        assert_eq!(files.doubted(), [blob()]);
        files.no_doubt(&blob()).await;
        assert_eq!(count(&dir.join(TMP)), 0);
        let mut bytes = files.read(&blob(), 3, 1).await.unwrap();
        assert_eq!(bytes.next(10).await.unwrap(), "bc");
        assert_eq!(bytes.next(10).await.unwrap(), "");
        assert!(files.read(&blob(), 4, 0).await.is_err(), "another size");
        #[cfg(unix)]
        for (path, mode) in [
            (dir.clone(), 0o700),
            (dir.join("ba"), 0o700),
            (files.path(&blob()), 0o600),
        ] {
            use std::os::unix::fs::PermissionsExt as _;
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
        files.unlink(&blob()).await;
        files.unlink(&blob()).await;
        assert!(files.read(&blob(), 3, 0).await.is_err());
    }

    #[tokio::test]
    async fn a_folder_has_one_hub_and_starts_without_what_was_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let files = open(folder.path()).unwrap();
        let again = open(folder.path()).unwrap_err().to_string();
        assert!(again.contains("another hub"), "{again}");
        let partial = abc(&files).await;
        files.doubt(&[blob()]).await.unwrap();
        assert_eq!(count(&folder.path().join(TMP)), 2);
        // As a kill would leave it.
        std::mem::forget(partial);
        drop(files);
        let files = open(folder.path()).unwrap();
        assert_eq!(count(&folder.path().join(TMP)), 1);
        assert_eq!(files.doubted(), [blob()]);
    }

    #[test]
    fn what_is_dropped_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let files = open(folder.path()).unwrap();
        let partial = runtime.block_on(abc(&files));
        assert_eq!(count(&folder.path().join(TMP)), 1);
        drop(partial);
        assert_eq!(count(&folder.path().join(TMP)), 0);
    }
}
