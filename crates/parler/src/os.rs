//! Everything that differs between operating systems, and nothing else.
//!
//! Processes (a session of its own, a polite end, whose process that is), the closed pipe behind
//! standard output, who listens on a port. On Windows there are no sessions and no SIGTERM: a
//! detached process has its own group, and is ended by `taskkill`.

use std::io;
use std::process::Command;

/// Prepares a command so that it outlives this process and its terminal.
///
/// On Unix the child itself calls [`new_session`] as its first act.
pub fn detach(command: &mut Command) {
    #[cfg(windows)]
    {
        use std::os::windows::process::CommandExt;
        // DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP
        command.creation_flags(0x0000_0008 | 0x0000_0200);
    }
    #[cfg(not(windows))]
    let _ = command;
}

/// Leaves the terminal's session, so that closing the terminal does not end this process.
///
/// # Errors
/// When this process leads a group already, as one started from a shell does.
pub fn new_session() -> io::Result<()> {
    #[cfg(unix)]
    rustix::process::setsid()?;
    Ok(())
}

/// Asks the process to end (SIGTERM).
///
/// # Errors
/// When there is no such process, or it is somebody else's.
pub fn terminate(pid: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        let pid = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .ok_or(io::ErrorKind::InvalidInput)?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        Ok(())
    }
    #[cfg(not(unix))]
    {
        let done = Command::new("taskkill")
            .args(["/F", "/PID", &pid.to_string()])
            .output()?;
        if done.status.success() {
            return Ok(());
        }
        Err(io::Error::other("taskkill failed"))
    }
}

/// The command line of a process, where the system tells it.
pub fn command_line(pid: u32) -> Option<Vec<String>> {
    if cfg!(target_os = "linux") {
        let raw = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        return Some(
            raw.split(|b| *b == 0)
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        );
    }
    if cfg!(unix) {
        let pid = pid.to_string();
        let done = Command::new("ps")
            .args(["-o", "args=", "-p", &pid])
            .output();
        let text = String::from_utf8(done.ok()?.stdout).ok()?;
        return Some(text.split_whitespace().map(str::to_owned).collect());
    }
    None
}

/// Who listens on that port of 127.0.0.1, as far as this user may know: `"nginx (pid 812)"`.
pub fn listener(port: u16) -> Option<String> {
    let inode = listening_inode(port)?;
    let link = format!("socket:[{inode}]");
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let Ok(files) = std::fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let holds = files
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|target| target.to_string_lossy() == link);
        if holds {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (pid {pid})", name.trim()));
        }
    }
    None
}

/// The inode of the socket that listens on the port, from the kernel's table (Linux only).
fn listening_inode(port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| {
            let table = std::fs::read_to_string(table).ok()?;
            table.lines().skip(1).find_map(|line| {
                let columns: Vec<&str> = line.split_whitespace().collect();
                let hit = columns.get(1)?.ends_with(&suffix) && *columns.get(3)? == LISTEN;
                hit.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
            })
        })
}

/// Columns of the terminal that standard output is; `None` when it is none, or says nothing.
#[cfg(unix)]
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Not known here: the terminal breaks lines by itself.
#[cfg(not(unix))]
pub fn columns() -> Option<usize> {
    None
}

/// Blocks until nobody can read standard output any more; never returns for a file.
///
/// For a thread of its own: `recv --watch | head` should end when `head` does, not at the next
/// message.
#[cfg(unix)]
pub fn wait_until_reader_gone() {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = io::stdout();
    loop {
        // No events asked for: only an error or a hang-up ends the call.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) => return,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => loop {
                std::thread::park();
            },
        }
    }
}

/// Pipes tell it only when written to.
#[cfg(not(unix))]
pub fn wait_until_reader_gone() {
    loop {
        std::thread::park();
    }
}

/// The signals that end a long command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM or SIGHUP: somebody wants an orderly end.
    Terminate,
}

/// Completes when this process is asked to end.
pub async fn stop_signal() -> Stop {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut term), Ok(mut hang_up)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            let _ = tokio::signal::ctrl_c().await;
            return Stop::Interrupt;
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => Stop::Interrupt,
            _ = term.recv() => Stop::Terminate,
            _ = hang_up.recv() => Stop::Terminate,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = tokio::signal::ctrl_c().await;
        Stop::Interrupt
    }
}

/// Whether a local socket is there; of a named pipe it is not known before it is written to.
pub fn socket_exists(path: &str) -> bool {
    cfg!(not(unix)) || std::path::Path::new(path).exists()
}

/// Writes to a local socket (on Windows: a named pipe) that never answers.
///
/// # Errors
/// When it is not there, or does not take the bytes in that time.
pub fn write_to_socket(path: &str, bytes: &[u8], patience: std::time::Duration) -> io::Result<()> {
    use std::io::Write;
    #[cfg(unix)]
    {
        let mut socket = std::os::unix::net::UnixStream::connect(path)?;
        socket.set_write_timeout(Some(patience))?;
        socket.write_all(bytes)?;
        socket.shutdown(std::net::Shutdown::Write)
    }
    #[cfg(not(unix))]
    {
        let _ = patience;
        let mut pipe = std::fs::OpenOptions::new().write(true).open(path)?;
        pipe.write_all(bytes)?;
        pipe.flush()
    }
}

/// The permission bits of a file, for files that others own the format of.
pub fn mode(metadata: &std::fs::Metadata) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        Some(metadata.permissions().mode() & 0o7777)
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// Permissions for a new file: the given bits, where there are bits.
pub fn permissions(builder: &mut tempfile::Builder<'_, '_>, mode: Option<u32>) {
    #[cfg(unix)]
    if let Some(mode) = mode {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = (builder, mode);
}

/// Gives a file these permission bits, where there are bits.
///
/// # Errors
/// As the file system says.
pub fn set_mode(path: &std::path::Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_named() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let holder = listener(port).unwrap();
        assert!(
            holder.ends_with(&format!("(pid {})", std::process::id())),
            "{holder}"
        );
        drop(socket);
        assert_eq!(listener(port), None);
    }

    #[test]
    fn a_command_line_is_told_in_words() {
        let words = command_line(std::process::id()).unwrap();
        assert_eq!(words[0], std::env::args().next().unwrap());
        assert_eq!(command_line(u32::MAX), None);
    }
}
