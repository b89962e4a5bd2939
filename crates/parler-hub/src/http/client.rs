//! Who is at the other end of a request: its address, and by which address it reached us.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use parler_protocol::links;

use crate::rate::address_key;
use crate::state::HubState;

/// The client's address.
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(pub IpAddr);

impl FromRequestParts<Arc<HubState>> for ClientIp {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<HubState>,
    ) -> Result<Self, Infallible> {
        Ok(ClientIp::of(state, parts))
    }
}

impl ClientIp {
    /// What a trusted proxy says (the last hop that it saw), else the peer.
    pub fn of(state: &HubState, parts: &Parts) -> ClientIp {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        // Each connection that we accept has one.
        let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |info| info.0.ip());
        let ip = if state.config().trust_proxy_headers {
            forwarded(&parts.headers).unwrap_or(peer)
        } else {
            peer
        };
        ClientIp(ip)
    }

    /// The address as budgets know it (IPv6: its /64). Whether it is this machine's own can only
    /// be told from the address itself.
    pub fn key(self) -> IpAddr {
        address_key(self.0)
    }
}

fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let direct = text(headers, "fly-client-ip").and_then(|v| v.trim().parse().ok());
    direct.or_else(|| {
        // The last element of the last header: what stands before it is the client's own word.
        let last = headers.get_all("x-forwarded-for").iter().next_back()?;
        let last = last.to_str().ok()?.rsplit(',').next()?;
        last.trim().parse().ok()
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The web address by which clients reach this hub: the configured one. What a request says about
/// it counts only behind a proxy that is trusted to set these headers.
pub fn base_url(state: &HubState, headers: &HeaderMap) -> String {
    asked_for(state, headers).unwrap_or_else(|| links::http_url(state.url()))
}

fn asked_for(state: &HubState, headers: &HeaderMap) -> Option<String> {
    if !state.config().trust_proxy_headers {
        return None;
    }
    let host = text(headers, header::HOST.as_str())?.trim();
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if host.is_empty() || !host.bytes().all(plain) {
        return None;
    }
    let proto = text(headers, "x-forwarded-proto").and_then(|v| v.split(',').next());
    let scheme = match proto.map(str::trim) {
        Some("https") => "https",
        Some("http") => "http",
        _ if links::is_loopback(host) || host.starts_with("0.0.0.0") || host.starts_with("[::") => {
            "http"
        }
        _ => "https",
    };
    Some(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_hop_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(forwarded(&headers), None);
        headers.append("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().unwrap());
        assert_eq!(forwarded(&headers), "2.2.2.2".parse().ok());
        headers.append("x-forwarded-for", "3.3.3.3".parse().unwrap());
        assert_eq!(forwarded(&headers), "3.3.3.3".parse().ok());
        headers.append("x-forwarded-for", "nonsense".parse().unwrap());
        assert_eq!(forwarded(&headers), None);
        headers.insert("fly-client-ip", "4.4.4.4".parse().unwrap());
        assert_eq!(forwarded(&headers), "4.4.4.4".parse().ok());
    }
}
