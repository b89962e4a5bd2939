//! Private files: seeds, configuration and whatever else nobody but the user may read.
//!
//! A file is written to a temporary name in the same directory, private from the first instant,
//! brought to the disk, and only then renamed: a reader sees the old content, the new content or
//! no file, never a part of one, and a crash leaves at most a private file with a temporary name.
//!
//! Refuses to follow other users' doing: a secret that they can read is an error
//! ([`read_secret`]), not silently mended, since it may have leaked; a damaged key file is an
//! error and never a new identity. Knows nothing of what the files mean, but for the key itself.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::error::{IdentityError, KeyFileError};
use crate::keypair::KeyPair;
use crate::{nkey, platform};

/// Largest private file that is read or written. They hold a seed or a few settings; the bound
/// keeps a wrong path from filling the memory.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Creates the file with that content unless the name is taken; says whether it did.
///
/// Of any number of processes that race exactly one gets `true`, and from then on all read its
/// content. Missing parent directories are created with mode 0700.
///
/// # Errors
/// [`KeyFileError::Io`], [`KeyFileError::TooLarge`]. A name that is taken is no error.
pub fn create_once(path: &Path, bytes: &[u8]) -> Result<bool, KeyFileError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    let temp = write_temp(path, bytes)?;
    let made = match temp.persist_noclobber(path) {
        Ok(_) => true,
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(e) => return Err(KeyFileError::io("create", path)(e.error)),
    };
    sync_parent(path)?;
    Ok(made)
}

/// Puts the content in place of whatever the file held, or creates it; mode 0600 afterwards,
/// whatever it was. Of several writers the last one wins, whole. A symbolic link of that name is
/// replaced, not followed.
///
/// # Errors
/// [`KeyFileError::Io`], [`KeyFileError::TooLarge`]; then the old content is untouched.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    write_temp(path, bytes)?
        .persist(path)
        .map_err(|e| KeyFileError::io("replace", path)(e.error))?;
    sync_parent(path)
}

/// Reads a private file that holds no secret; `None` when there is none.
///
/// # Errors
/// [`KeyFileError::Io`], [`KeyFileError::NotAFile`], [`KeyFileError::TooLarge`].
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, KeyFileError> {
    read_if(path, |_| Ok(()))
}

/// Reads a file that holds a secret; `None` when there is none. Wiping it is for the caller.
///
/// # Errors
/// As [`read`], and [`KeyFileError::LoosePermissions`] when group or others have any right to
/// the file.
pub fn read_secret(path: &Path) -> Result<Option<Vec<u8>>, KeyFileError> {
    read_if(path, |metadata| match platform::loose_mode(metadata) {
        Some(mode) => Err(KeyFileError::LoosePermissions {
            path: path.to_owned(),
            mode,
        }),
        None => Ok(()),
    })
}

/// Reads a key file; `None` when there is none.
///
/// # Errors
/// As [`read_secret`], and [`KeyFileError::Damaged`] when it holds anything but one nkey seed
/// and white space after it.
pub fn load_key(path: &Path) -> Result<Option<KeyPair>, KeyFileError> {
    let Some(bytes) = read_secret(path)?.map(Zeroizing::new) else {
        return Ok(None);
    };
    std::str::from_utf8(&bytes)
        .map_err(|_| IdentityError::BadSeed("the file is not text"))
        .and_then(|text| KeyPair::from_seed_text(text.trim_ascii_end()))
        .map(Some)
        .map_err(|cause| KeyFileError::Damaged {
            path: path.to_owned(),
            cause,
        })
}

/// Reads the key file, or makes a new identity and writes it (the seed and a newline).
///
/// However many processes start at once, all of them get the same identity.
///
/// # Errors
/// As [`load_key`] and [`create_once`]; [`KeyFileError::NoKey`] without randomness;
/// [`KeyFileError::Unreachable`] when the name is taken by something that cannot be read.
pub fn load_or_create_key(path: &Path) -> Result<KeyPair, KeyFileError> {
    if let Some(keys) = load_key(path)? {
        return Ok(keys);
    }
    let keys = KeyPair::generate()?;
    let mut line = Zeroizing::new(Vec::with_capacity(nkey::SEED_LEN + 1));
    line.extend_from_slice(keys.seed_text().as_bytes());
    line.push(b'\n');
    if create_once(path, &line)? {
        return Ok(keys);
    }
    load_key(path)?.ok_or_else(|| KeyFileError::Unreachable(path.to_owned()))
}

/// The directory of the file; of a bare name the working directory.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn sync_parent(path: &Path) -> Result<(), KeyFileError> {
    platform::sync_dir(parent(path)).map_err(KeyFileError::io("sync the directory of", path))
}

fn write_temp(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, KeyFileError> {
    // What could not be read again must not be written.
    if u64::try_from(bytes.len()).map_or(true, |len| len > MAX_FILE_BYTES) {
        return Err(KeyFileError::TooLarge(path.to_owned()));
    }
    let dir = parent(path);
    platform::create_private_dir(dir).map_err(KeyFileError::io("create the directory", dir))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".parler-").suffix(".tmp");
    platform::make_private(&mut builder);
    let mut temp = builder
        .tempfile_in(dir)
        .map_err(KeyFileError::io("create a file in", dir))?;
    temp.write_all(bytes)
        .and_then(|()| temp.as_file().sync_all())
        .map_err(KeyFileError::io("write", path))?;
    Ok(temp)
}

fn read_if(
    path: &Path,
    allowed: impl FnOnce(&fs::Metadata) -> Result<(), KeyFileError>,
) -> Result<Option<Vec<u8>>, KeyFileError> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeyFileError::io("read", path)(e)),
        Ok(metadata) if !metadata.is_file() => return Err(KeyFileError::NotAFile(path.to_owned())),
        Ok(_) => {}
    }
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(KeyFileError::io("read", path))?,
    };
    let metadata = file.metadata().map_err(KeyFileError::io("read", path))?;
    allowed(&metadata)?;
    let expected = usize::try_from(metadata.len().min(MAX_FILE_BYTES)).unwrap_or(0);
    // Large enough at once: a growing buffer would leave copies of a secret behind.
    let mut bytes = Vec::with_capacity(expected + 32);
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(KeyFileError::io("read", path))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(KeyFileError::TooLarge(path.to_owned()));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home").join("agent.key");
        (dir, path)
    }

    #[test]
    fn the_first_creation_wins_and_a_replacement_is_whole() {
        let (_dir, path) = dir();
        assert_eq!(read(&path).unwrap(), None);
        assert!(create_once(&path, b"first").unwrap());
        assert!(!create_once(&path, b"second").unwrap());
        assert_eq!(read(&path).unwrap().unwrap(), b"first");
        replace(&path, b"third").unwrap();
        assert_eq!(read_secret(&path).unwrap().unwrap(), b"third");
        let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "no temporary file is left");
    }

    #[test]
    fn a_key_is_made_once_and_read_again() {
        let (_dir, path) = dir();
        let keys = load_or_create_key(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n", *keys.seed_text()));
        assert_eq!(load_or_create_key(&path).unwrap().id(), keys.id());
        replace(&path, text.trim_end().as_bytes()).unwrap();
        assert_eq!(load_or_create_key(&path).unwrap().id(), keys.id());
    }

    #[test]
    fn a_damaged_key_is_an_error_and_stays_as_it_is() {
        let (_dir, path) = dir();
        let seed = KeyPair::generate().unwrap().seed_text();
        let twice = format!("{}\n{}\n", *seed, *seed);
        let wrong = seed.replace(&seed[20..21], if &seed[20..21] == "A" { "B" } else { "A" });
        for damaged in [
            b"".as_slice(),
            b"\n",
            &seed.as_bytes()[..30],
            &seed.as_bytes()[1..],
            twice.as_bytes(),
            wrong.as_bytes(),
            &[0; 59],
            &[0xff; 59],
            b"{\"seed\":\"SU\"}",
        ] {
            replace(&path, damaged).unwrap();
            let error = load_or_create_key(&path).unwrap_err();
            assert!(matches!(error, KeyFileError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("agent.key"), "{error}");
            assert_eq!(read(&path).unwrap().unwrap(), damaged);
        }
    }

    #[test]
    fn what_is_no_file_or_too_large_is_refused() {
        let (dir, path) = dir();
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap();
        replace(&path, &vec![b'x'; limit]).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().len(), limit);
        let more = vec![b'x'; limit + 1];
        assert!(matches!(
            replace(&path, &more),
            Err(KeyFileError::TooLarge(_))
        ));
        fs::write(&path, &more).unwrap();
        assert!(matches!(read(&path), Err(KeyFileError::TooLarge(_))));
        assert!(matches!(read(dir.path()), Err(KeyFileError::NotAFile(_))));
        assert!(matches!(
            load_or_create_key(dir.path()),
            Err(KeyFileError::NotAFile(_))
        ));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let (_dir, path) = dir();
        create_once(&path, b"a file").unwrap();
        let below = path.join("agent.key");
        assert!(matches!(
            create_once(&below, b"x"),
            Err(KeyFileError::Io { .. })
        ));
    }
}
