//! Opens the listening socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::{HubError, defaults};

/// Binds and listens with a deep queue. Must be called inside a tokio runtime.
///
/// # Errors
/// What the system says; the caller names the address.
pub fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if cfg!(unix) {
        // On Windows the same option would let a second program share the port.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(defaults::LISTEN_BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Resolves and binds an address as a person wrote it.
///
/// # Errors
/// [`HubError::Listen`], which names it.
pub fn named(addr: &str) -> Result<TcpListener, HubError> {
    let failed = |source| HubError::Listen {
        addr: addr.to_owned(),
        source,
    };
    bind(resolve(addr).map_err(failed)?).map_err(failed)
}

/// Resolves `host:port`, first address first.
///
/// # Errors
/// When the name means nothing.
pub fn resolve(addr: &str) -> io::Result<SocketAddr> {
    addr.to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such address"))
}
