//! Names of files and folders that stand for something longer: a terminal, a session, a workspace.
//!
//! Two kinds. [`digest`] is for everything of our own and cannot be steered by who chooses the
//! text. [`fnv64`] is the hash that homes of workspaces have always had; it is kept so that they
//! are found again, and nothing rests on it.

use sha2::{Digest, Sha256};

/// Sixteen hexadecimal digits (64 bits of SHA-256) for these parts, told apart by their lengths.
pub(crate) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// FNV-1a over the bytes.
pub(crate) fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The folder name that the scoping rule of existing clients gives a workspace, or one session of
/// it.
pub(crate) fn scoped_folder(workspace: &std::path::Path, session: Option<&str>) -> String {
    let mut key = workspace.to_string_lossy().into_owned();
    if let Some(session) = session {
        key.push('\0');
        key.push_str(session);
    }
    format!("{:016x}", fnv64(key.as_bytes()))
}

/// The bytes of a path, for hashing.
pub(crate) fn path_bytes(path: &std::path::Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"abc"]), digest(&[b"abc", b""]));
        assert_eq!(digest(&[b"abc"]).len(), 16);
    }

    #[test]
    fn the_old_hash_is_the_published_one() {
        assert_eq!(fnv64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv64(b"foobar"), 0x8594_4171_f739_67e8);
        let plain = scoped_folder(Path::new("/w"), None);
        assert_eq!(plain, format!("{:016x}", fnv64(b"/w")));
        let session = scoped_folder(Path::new("/w"), Some("s"));
        assert_eq!(session, format!("{:016x}", fnv64(b"/w\0s")));
    }
}
