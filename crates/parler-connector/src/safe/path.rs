//! Names and bytes of files that a peer sent.
//!
//! The name is the sender's word. [`base_name`] makes a plain base name of it; [`save`] writes the
//! bytes under a name that nothing has yet, never through a link, and only after their hash was
//! found to be the promised one. Where the file goes is the receiver's decision, never the
//! sender's.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parler_protocol::BlobId;
use sha2::{Digest, Sha256};

/// The longest base name, in bytes: what common file systems take.
pub const MAX_NAME_BYTES: usize = 255;

/// Names that some systems keep for devices, whatever follows the first dot.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Why received bytes were not written. Nothing was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The bytes are not the promised ones.
    #[error("the bytes received are not those of blob {expected}; nothing was written")]
    WrongBytes {
        /// The promised content id.
        expected: String,
    },
    /// Something has that name already.
    #[error("{} exists; nothing was written: name another file", .0.display())]
    Exists(PathBuf),
    /// The system refused.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes a plain base name of what a peer called its file; never empty, never a path.
///
/// The last component counts, with either slash. Control, bidirectional and invisible characters
/// go, as do characters that some system forbids in names; it starts with neither `-` nor `.`,
/// ends in neither a dot nor a blank, is no device's name, and has at most [`MAX_NAME_BYTES`]
/// bytes with its extension kept.
#[must_use]
pub fn base_name(peer: &str) -> String {
    let last = peer
        .rsplit(['/', '\\'])
        .find(|part| !part.trim().is_empty());
    let cleaned: String = parler_protocol::clean::name(last.unwrap_or_default())
        .chars()
        .map(|c| if "<>:\"|?*".contains(c) { '_' } else { c })
        .collect();
    let name = cleaned
        .trim_start_matches(['-', '.', ' ', '~'])
        .trim_end_matches(['.', ' ']);
    let name = if is_device(name) {
        format!("_{name}")
    } else {
        name.to_owned()
    };
    if name.is_empty() {
        return "file".to_owned();
    }
    shorten(&name)
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim().to_lowercase();
    let numbered = stem.strip_prefix("com").or(stem.strip_prefix("lpt"));
    let is_number = |rest: &str| {
        let mut chars = rest.chars();
        matches!(
            (chars.next(), chars.next()),
            (Some('0'..='9' | '¹' | '²' | '³'), None)
        )
    };
    DEVICES.contains(&stem.as_str()) || numbered.is_some_and(is_number)
}

/// Cuts the stem, not the extension.
fn shorten(name: &str) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name.to_owned();
    }
    let extension = name
        .rfind('.')
        .map(|at| &name[at..])
        .filter(|extension| extension.len() <= 20)
        .unwrap_or_default();
    let mut end = MAX_NAME_BYTES - extension.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{extension}", name[..end].trim_end_matches(['.', ' ']))
}

/// Whether the bytes have that content id.
#[must_use]
pub fn is_blob(bytes: &[u8], blob: &BlobId) -> bool {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    hex == blob.as_str()
}

/// Writes received bytes to a path of the receiver's choice: all of them or nothing, only if they
/// are the promised ones, never over anything that exists and never through a link of that name.
/// The file is private (Unix: mode 0600).
///
/// # Errors
/// See [`SaveError`].
pub fn save(path: &Path, bytes: &[u8], blob: &BlobId) -> Result<(), SaveError> {
    if !is_blob(bytes, blob) {
        return Err(SaveError::WrongBytes {
            expected: blob.to_string(),
        });
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(SaveError::Exists(path.to_owned()));
    }
    let failed = |source| SaveError::Io {
        path: path.to_owned(),
        source,
    };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut temp = tempfile::Builder::new()
        .prefix(".parler-")
        .tempfile_in(dir)
        .map_err(failed)?;
    temp.write_all(bytes)
        .and_then(|()| temp.as_file().sync_all())
        .map_err(failed)?;
    match temp.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(SaveError::Exists(path.to_owned()))
        }
        Err(e) => Err(failed(e.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(bytes: &[u8]) -> BlobId {
        let hex: String = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        BlobId::parse(&hex).unwrap()
    }

    #[test]
    fn a_sent_name_becomes_a_plain_base_name() {
        for (peer, name) in [
            ("report.txt", "report.txt"),
            ("Übersicht 木.md", "Übersicht 木.md"),
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            ("..\\..\\x.exe", "x.exe"),
            ("C:\\temp\\x", "x"),
            ("C:x", "C_x"),
            ("dir/", "dir"),
            ("-rf", "rf"),
            ("--", "file"),
            (".bashrc", "bashrc"),
            ("..", "file"),
            (".", "file"),
            ("~", "file"),
            ("", "file"),
            ("   ", "file"),
            ("a\u{0}b\u{1b}[31m.txt", "ab[31m.txt"),
            ("gpj\u{202E}exe.txt", "gpjexe.txt"),
            ("a\nb.txt", "a b.txt"),
            ("x.txt. . ", "x.txt"),
            ("con", "_con"),
            ("NUL.txt", "_NUL.txt"),
            ("com1", "_com1"),
            ("LPT9.log", "_LPT9.log"),
            ("com", "com"),
            ("com10", "com10"),
            ("console.log", "console.log"),
            ("a:stream", "a_stream"),
        ] {
            assert_eq!(base_name(peer), name, "{peer:?}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension_and_whole_characters() {
        let name = base_name(&format!("{}.tar.gz", "é".repeat(300)));
        assert!(
            name.len() <= MAX_NAME_BYTES && name.ends_with(".gz"),
            "{name}"
        );
        assert!(base_name(&"x".repeat(1000)).len() <= MAX_NAME_BYTES);
        let odd = base_name(&format!("a.{}", "y".repeat(400)));
        assert!(odd.len() <= MAX_NAME_BYTES && odd.starts_with("a."));
    }

    #[test]
    fn only_the_promised_bytes_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let wrong = save(&path, b"other", &blob(b"bytes")).unwrap_err();
        assert!(matches!(wrong, SaveError::WrongBytes { .. }));
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
        save(&path, b"bytes", &blob(b"bytes")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"mine").unwrap();
        let error = save(&path, b"b", &blob(b"b")).unwrap_err();
        assert!(matches!(error, SaveError::Exists(_)));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let missing = dir.path().join("no").join("x");
        assert!(matches!(
            save(&missing, b"b", &blob(b"b")),
            Err(SaveError::Io { .. })
        ));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed_not_even_a_dangling_one() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = save(&link, b"b", &blob(b"b")).unwrap_err();
        assert!(matches!(error, SaveError::Exists(_)));
        assert!(!target.exists());
    }
}
