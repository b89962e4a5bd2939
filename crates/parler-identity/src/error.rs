//! What can go wrong with a key, and with the file that holds it.
//!
//! A signature that does not verify is no error but an answer, and never appears here. No text
//! shows a secret, or anything that a peer wrote. Each text tells its cause, so it reads alone.

use std::io;
use std::path::{Path, PathBuf};

use crate::platform;

/// Why a key could not be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The system gave no random bytes for a new key.
    #[error("the system gives no random bytes for a new key: {0}")]
    NoRandomness(getrandom::Error),
    /// The text is not an nkey seed of an agent; the reason never repeats the text.
    #[error("not a seed of an agent's key: {0}")]
    BadSeed(&'static str),
    /// A hub asked for a signature over something that has not the shape of a login challenge.
    /// It may be broken, or after a forged signature; nothing was signed.
    #[error("the hub's challenge has not the shape of one; nothing was signed")]
    NotAChallenge,
    /// A client asked a hub to prove its key with a nonce of unsafe shape; nothing was signed.
    #[error("hubNonce must be 1 to {max} ASCII letters and digits; nothing was signed", max = crate::challenge::MAX_HUB_NONCE_BYTES)]
    UnsafeHubNonce,
}

/// Why a private file could not be read or written. The text names the file and, where one
/// command mends it, that command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system refused.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Something else than a regular file has that name.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The file is, or would be, larger than [`crate::keyfile::MAX_FILE_BYTES`].
    #[error("{} is larger than {max} bytes", .0.display(), max = crate::keyfile::MAX_FILE_BYTES)]
    TooLarge(PathBuf),
    /// A secret that others can read, or replace. It may have leaked already.
    #[error(
        "{} holds a secret and is open to other users (mode {mode:04o}); run: chmod 600 {}",
        path.display(), platform::shell_word(path)
    )]
    LoosePermissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is there and holds no key. It is left as it is: a new key would be a new identity.
    #[error(
        "{} holds no usable key ({cause}); restore it from a backup, or give this identity up \
         and start with a new one: mv {} {}.damaged",
        path.display(), platform::shell_word(path), platform::shell_word(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        cause: IdentityError,
    },
    /// The name is taken and nothing can be read there: a dangling link, or a file that comes and
    /// goes.
    #[error("{} exists and cannot be opened: is it a dangling link?", .0.display())]
    Unreachable(PathBuf),
    /// No new key could be made.
    #[error(transparent)]
    NoKey(#[from] IdentityError),
}

impl KeyFileError {
    /// For `map_err`: an error of the system about `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| KeyFileError::Io {
            action,
            path,
            cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_text_names_the_file_and_the_command_that_mends_it() {
        let path = PathBuf::from("/home/it's me/agent.key");
        let loose = KeyFileError::LoosePermissions {
            path: path.clone(),
            mode: 0o644,
        };
        assert_eq!(
            loose.to_string(),
            "/home/it's me/agent.key holds a secret and is open to other users (mode 0644); \
             run: chmod 600 '/home/it'\\''s me/agent.key'"
        );
        let damaged = KeyFileError::Damaged {
            path: "/srv/hub.key".into(),
            cause: IdentityError::BadSeed("wrong length"),
        };
        assert!(
            damaged
                .to_string()
                .ends_with("mv /srv/hub.key /srv/hub.key.damaged")
        );
    }
}
