//! The active session of an identity: the room that a command without a target means.
//!
//! One line in the file `active_session` of the home, private. It is a convenience; losing it
//! costs a `--room`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parler_identity::{KeyFileError, keyfile};
use parler_protocol::limits::MAX_FIELD_BYTES;

fn path_in(home: &Path) -> PathBuf {
    home.join("active_session")
}

/// The active session's room, if there is one. A file that cannot be read, or holds anything but
/// one line of a room's length, counts as none.
#[must_use]
pub fn active_session(home: &Path) -> Option<String> {
    let bytes = keyfile::read(&path_in(home)).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let room = text.trim();
    let is_one = !room.is_empty() && room.len() <= MAX_FIELD_BYTES && !room.contains('\n');
    is_one.then(|| room.to_owned())
}

/// Makes that room the active session; `None` ends it.
///
/// # Errors
/// When the file cannot be written or removed.
pub fn set_active_session(home: &Path, room: Option<&str>) -> Result<(), KeyFileError> {
    let path = path_in(home);
    match room {
        Some(room) => keyfile::replace(&path, room.trim().as_bytes()),
        None => match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(KeyFileError::Io {
                action: "remove",
                path,
                cause,
            }),
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_kept_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        assert_eq!(active_session(&home), None);
        set_active_session(&home, None).unwrap();
        set_active_session(&home, Some("room.abc\n")).unwrap();
        assert_eq!(active_session(&home).as_deref(), Some("room.abc"));
        set_active_session(&home, None).unwrap();
        assert_eq!(active_session(&home), None);
    }

    #[test]
    fn what_is_no_room_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for content in [&b"  \n"[..], b"a\nb", &[0xff], &[b'x'; MAX_FIELD_BYTES + 1]] {
            fs::write(path_in(dir.path()), content).unwrap();
            assert_eq!(active_session(dir.path()), None);
        }
        // As other clients write it, with a line end and readable by all.
        fs::write(path_in(dir.path()), b"team\r\n").unwrap();
        assert_eq!(active_session(dir.path()).as_deref(), Some("team"));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        set_active_session(dir.path(), Some("x")).unwrap();
        let mode = fs::metadata(path_in(dir.path()))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
