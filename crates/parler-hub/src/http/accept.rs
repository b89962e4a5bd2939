//! Accepts sockets and speaks HTTP on them until they are answered or become WebSockets.
//!
//! The number of sockets in this state, the time for a TLS handshake and that for a request's head
//! are bounded, so that connections which say nothing neither pile up nor use up the process's
//! descriptors.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::Service as _;

use super::stall::Patient;
use crate::addresses::{Addresses, Place, share};
use crate::defaults;
use crate::state::HubState;

/// Serves a router on a listener, for ever. Dropping it stops accepting; sockets that became
/// WebSockets live on with their own tasks. `proxied`: all of it may come from one address.
/// `certified` has the certificate, where TLS is spoken.
pub async fn serve(
    certified: Option<Arc<HubState>>,
    listener: TcpListener,
    router: Router,
    proxied: bool,
) -> Infallible {
    let sockets = Arc::new(Semaphore::new(defaults::MAX_HTTP_SOCKETS));
    let addresses = Arc::new(Addresses::default());
    // Behind a proxy that is trusted everything comes from one address.
    let most = match proxied {
        true => usize::MAX,
        false => share(defaults::MAX_HTTP_SOCKETS),
    };
    loop {
        // Who cannot be served now waits in the system's queue. The semaphore is never closed.
        let place = Arc::clone(&sockets).acquire_owned().await;
        match (place, listener.accept().await) {
            (Ok(place), Ok((tcp, peer))) => {
                let Some(of_address) = addresses.take(peer.ip(), most) else {
                    continue;
                };
                let place = (place, of_address);
                tokio::spawn(greet(certified.clone(), tcp, peer, router.clone(), place));
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(defaults::ACCEPT_PAUSE).await;
            }
            (Err(_), _) => unreachable!("the semaphore is never closed"),
        }
    }
}

async fn greet(
    certified: Option<Arc<HubState>>,
    tcp: TcpStream,
    peer: SocketAddr,
    router: Router,
    place: (OwnedSemaphorePermit, Place),
) {
    // A frame is small and somebody waits for it.
    let _ = tcp.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(defaults::TCP_KEEPALIVE);
    let _ = socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive);
    let tcp = Patient::new(tcp);
    match certified.as_deref().and_then(HubState::tls) {
        None => speak(TokioIo::new(tcp), peer, router).await,
        Some(tls) => {
            let handshake = tls.acceptor().accept(tcp);
            match timeout(defaults::TLS_TIMEOUT, handshake).await {
                Ok(Ok(stream)) => speak(TokioIo::new(stream), peer, router).await,
                Ok(Err(error)) => tracing::trace!(%error, %peer, "no TLS"),
                Err(_) => tracing::trace!(%peer, "a TLS handshake took too long"),
            }
        }
    }
    drop(place);
}

async fn speak<S>(stream: S, peer: SocketAddr, router: Router)
where
    S: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(defaults::HEAD_TIMEOUT)
        .serve_connection(stream, service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, %peer, "a socket ended early");
    }
}
