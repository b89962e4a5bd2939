//! The hub on demand: one a user, everything it has in the base home.
//!
//! `hub.lock` is held for life and says who holds it; `hub.port` is chosen once and kept for
//! ever, because session keys embed it; `hub.secret` keeps other users of the machine out;
//! `hub.key` is how clients know that it is this hub and not a stranger on the port.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parler_identity::keyfile;

use super::args::secret_from_file;
use super::{Config, ConfigError, HubArgs, Limits};
use crate::{defaults, listen};

/// The place of a hub on demand, locked.
#[derive(Debug)]
pub struct LocalHub {
    base: PathBuf,
    lock: File,
}

impl LocalHub {
    /// Takes the place; waits up to [`defaults::START_WAIT`] for a hub that is stopping.
    ///
    /// # Errors
    /// When another hub keeps it, or the folder cannot be used.
    pub fn take(base: &Path) -> Result<Self, ConfigError> {
        let path = base.join("hub.lock");
        let broken = |e: &dyn std::fmt::Display| ConfigError::File {
            path: path.clone(),
            reason: e.to_string(),
        };
        keyfile::create_once(&path, b"").map_err(|e| broken(&e))?;
        let mut lock = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| broken(&e))?;
        let deadline = Instant::now() + defaults::START_WAIT;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(LocalHub {
                        base: base.to_owned(),
                        lock,
                    });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    let _ = lock.read_to_string(&mut holder);
                    return Err(ConfigError::InUse(format!(
                        "another hub is running for {} ({}): see `parler hub status`",
                        base.display(),
                        holder.trim()
                    )));
                }
                Err(TryLockError::Error(e)) => return Err(broken(&e)),
            }
        }
    }

    /// The configuration of the hub on demand.
    ///
    /// # Errors
    /// When a file of the base home cannot be used.
    pub fn config(&self, args: &HubArgs) -> Result<Config, ConfigError> {
        let config = args.config()?;
        Ok(Config {
            // Everybody on the machine has one address: another user must not be able to spend it.
            limits: Limits {
                max_http_per_min: 0,
                ..config.limits
            },
            db: Some(self.base.join("hub.sqlite")),
            key_file: Some(self.base.join("hub.key")),
            join_secret: Some(secret_from_file(&self.base.join("hub.secret"))?),
            idle_exit: Some(defaults::LOCAL_IDLE_EXIT),
            tls: None,
            ..config
        })
    }

    /// Binds the kept port, or chooses one and keeps it; then writes who listens where.
    ///
    /// # Errors
    /// When a stranger has the port.
    pub fn bind(&mut self) -> Result<tokio::net::TcpListener, ConfigError> {
        let path = self.base.join("hub.port");
        let broken = |reason: String| ConfigError::File {
            path: path.clone(),
            reason,
        };
        let kept = keyfile::read(&path).map_err(|e| broken(e.to_string()))?;
        let listener = match kept {
            Some(text) => {
                let text = String::from_utf8_lossy(&text);
                let port = text
                    .trim()
                    .parse()
                    .map_err(|_| broken(format!("`{}` is not a port", text.trim())))?;
                bind_patiently(port)?
            }
            None => {
                let first = listen::bind(loopback(defaults::PORT));
                let listener = match first {
                    Ok(listener) => listener,
                    Err(_) => listen::bind(loopback(0)).map_err(|e| broken(e.to_string()))?,
                };
                let port = listener
                    .local_addr()
                    .map_err(|e| broken(e.to_string()))?
                    .port();
                keyfile::replace(&path, format!("{port}\n").as_bytes())
                    .map_err(|e| broken(e.to_string()))?;
                listener
            }
        };
        let addr = listener.local_addr().map_err(|e| broken(e.to_string()))?;
        self.announce(addr).map_err(|e| broken(e.to_string()))?;
        Ok(listener)
    }

    fn announce(&mut self, addr: SocketAddr) -> std::io::Result<()> {
        let note = serde_json::json!({
            "pid": std::process::id(), "addr": addr.to_string(), "started": crate::now_ms(),
        });
        self.lock.seek(SeekFrom::Start(0))?;
        self.lock.set_len(0)?;
        writeln!(self.lock, "{note}")?;
        self.lock.sync_all()
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A hub that is stopping may still hold the port for a moment.
fn bind_patiently(port: u16) -> Result<tokio::net::TcpListener, ConfigError> {
    let deadline = Instant::now() + defaults::START_WAIT;
    loop {
        match listen::bind(loopback(port)) {
            Ok(listener) => return Ok(listener),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => {
                return Err(ConfigError::InUse(format!(
                    "port {port}, which this hub's session keys name, is taken by another \
                     program ({e}): stop that program; `ss -ltnp 'sport = :{port}'` names it"
                )));
            }
        }
    }
}
