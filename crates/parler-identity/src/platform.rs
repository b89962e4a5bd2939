//! Everything about private files that differs between systems, and nothing else: the modes of
//! files and directories, how a directory reaches the disk, how a path is quoted for a shell.
//!
//! On Unix a private file has mode 0600 and a private directory 0700. On Windows a file inherits
//! the access list of the user's profile, which other users cannot read: there is no mode to set
//! or to check. (On macOS `sync_all` already asks the drive itself to flush.)

use std::fs::Metadata;
use std::io;
use std::path::Path;

/// Makes the temporary file private from the first instant, whatever the umask.
#[cfg(unix)]
pub(crate) fn make_private(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o600));
}

/// Nothing to do: access lists are inherited.
#[cfg(not(unix))]
pub(crate) fn make_private(_builder: &mut tempfile::Builder<'_, '_>) {}

/// Creates the directory and its missing parents, all of them private; one that exists stays as
/// it is.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Brings the names in a directory to the disk: without it a rename may be gone after a power
/// loss. A file system that cannot do that for a directory is not an error.
#[cfg(unix)]
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    match std::fs::File::open(path)?.sync_all() {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Nothing to do: a directory cannot be opened for that, and the rename itself is journalled.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// The permission bits, when they let anybody but the owner in.
#[cfg(unix)]
pub(crate) fn loose_mode(file: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Never: there are no permission bits.
#[cfg(not(unix))]
pub(crate) fn loose_mode(_file: &Metadata) -> Option<u32> {
    None
}

/// The path as one word of a command that a person can paste.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else if cfg!(windows) {
        format!("\"{text}\"") // a Windows path cannot hold a double quote
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
