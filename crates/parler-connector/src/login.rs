//! Logging in.
//!
//! 1. The client says `hello` without proof; where the hub's key is known, with a random
//!    `hubNonce`.
//! 2. The hub answers with a challenge. Its shape is checked: nothing else is ever signed. Nor is
//!    that of another hub that this agent knows.
//! 3. Where the hub's key is known, the challenge must bear that key's signature over the
//!    `hubNonce` and the challenge. Until then nothing secret leaves.
//! 4. The client says `hello` again, with its signature over the challenge and with the join
//!    secret of this hub, if there is one.
//! 5. The hub welcomes it.
//!
//! This file alone touches the join secret, and sends it in step 4 only.

use parler_identity::challenge;
use parler_protocol::canonical::is_challenge;
use parler_protocol::{
    Challenge, ClientFrame, ErrorCode, ErrorFrame, Hello, PROTOCOL_VERSION, ServerFrame, links,
    version,
};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use crate::error::{ClientError, words};
use crate::link::{Answer, Broken, Link, Request, refused};
use crate::relay::relayed_from;
use crate::shared::Shared;
use crate::transport::Ending;

/// Random bytes of a `hubNonce`.
const HUB_NONCE_BYTES: usize = 32;

/// Proves this agent's key on a fresh connection, until `limit` at the latest.
pub(crate) async fn login(
    link: &mut Link,
    shared: &Shared,
    limit: Instant,
) -> Result<(), ClientError> {
    let hub_key = shared.options.endpoint.hub_key.as_deref();
    let hub_nonce = hub_key.map(|_| hub_nonce()).transpose()?;
    let first = hello(shared, hub_nonce.clone());
    let challenge = match say(link, shared, first, limit).await? {
        ServerFrame::Challenge(challenge) => challenge,
        ServerFrame::Error(error) => return Err(login_refused(shared, error, false)),
        _ => return Err(not_a_hub(shared, "it does not challenge")),
    };
    check(shared, hub_key.zip(hub_nonce.as_deref()), &challenge)?;
    warn_of_version(shared, challenge.version.as_deref());

    let sig = challenge::answer(&shared.options.keys, &challenge.nonce)
        .map_err(|_| bad_challenge(shared))?;
    let mut second = hello(shared, None);
    second.nonce = Some(challenge.nonce);
    second.sig = Some(sig);
    second.secret = secret(shared);
    match say(link, shared, second, limit).await? {
        ServerFrame::Welcome(welcome) if welcome.id == shared.options.keys.id().as_str() => Ok(()),
        ServerFrame::Error(error) => Err(login_refused(shared, error, true)),
        _ => Err(not_a_hub(shared, "it welcomes somebody else")),
    }
}

/// Warns once a client when what it says would cross a network in clear.
pub(crate) fn warn_if_plain(shared: &Shared) {
    let plain = !links::is_encrypted(&shared.dial_url) && !links::is_loopback(&shared.dial_url);
    if !plain || shared.warned_plain.set(true) {
        return;
    }
    let what = match secret(shared) {
        Some(_) => "the join secret and every message go to this hub in clear",
        None => "every message goes to this hub in clear",
    };
    tracing::warn!(
        hub = shared.shown_url,
        "{what}; use wss:// where the hub has TLS"
    );
}

fn hello(shared: &Shared, hub_nonce: Option<String>) -> Hello {
    Hello {
        id: shared.options.keys.id().to_string(),
        name: shared.options.name.clone(),
        role: shared.options.role.clone(),
        nonce: None,
        sig: None,
        secret: None,
        hub_nonce,
    }
}

fn secret(shared: &Shared) -> Option<String> {
    let secret = shared.options.endpoint.secret.as_ref()?.expose_secret();
    (!secret.is_empty()).then(|| secret.to_owned())
}

/// Steps 2 and 3: is this a challenge, and of the hub that is meant?
fn check(
    shared: &Shared,
    proof_of: Option<(&str, &str)>,
    challenge: &Challenge,
) -> Result<(), ClientError> {
    if !is_challenge(&challenge.nonce) {
        return Err(bad_challenge(shared));
    }
    let endpoint = &shared.options.endpoint;
    if let Some(other) = relayed_from(&challenge.nonce, &endpoint.url, &endpoint.known_hubs) {
        return Err(ClientError::AnothersLogin {
            url: shared.shown_url.clone(),
            other: words(other),
        });
    }
    let Some((hub_key, hub_nonce)) = proof_of else {
        return Ok(());
    };
    let proven = challenge
        .hub_sig
        .as_deref()
        .is_some_and(|sig| challenge::check_hub(hub_key, hub_nonce, &challenge.nonce, sig));
    if proven {
        Ok(())
    } else {
        Err(ClientError::WrongHub {
            url: shared.shown_url.clone(),
            expected: hub_key.to_owned(),
            got: challenge.hub.as_deref().map(words),
        })
    }
}

/// One of the two exchanges. What breaks it tells what answers there.
async fn say(
    link: &mut Link,
    shared: &Shared,
    hello: Hello,
    limit: Instant,
) -> Result<ServerFrame, ClientError> {
    let request = Request::new(&ClientFrame::Hello(hello))?;
    // Nobody has subscribed yet; a hub that pushes all the same is not listened to.
    match link.ask(&request, limit, &mut |_, _| {}).await {
        Ok(Answer::Frame(frame)) => Ok(*frame),
        Ok(Answer::Unreadable(_)) => Err(not_a_hub(shared, "its frames do not decode")),
        Err(Broken::OutOfOrder) => Err(not_a_hub(shared, "it answers something else")),
        Err(Broken::Ended(Ending::Garbage(what))) => {
            Err(not_a_hub(shared, &format!("it sends {what}")))
        }
        Err(Broken::Ended(Ending::TooLarge)) => Err(not_a_hub(shared, "its frames are too large")),
        Err(Broken::Silent) => Err(ClientError::TimedOut {
            what: "login",
            url: shared.shown_url.clone(),
        }),
        Err(broken) => Err(broken.into_error("login", &shared.shown_url)),
    }
}

/// Sorts a refused login by its code: what passes, what a secret would mend, and the rest.
fn login_refused(shared: &Shared, error: ErrorFrame, proven: bool) -> ClientError {
    let url = shared.shown_url.clone();
    match error.code {
        Some(
            ErrorCode::AtCapacity
            | ErrorCode::RateLimited
            | ErrorCode::Timeout
            | ErrorCode::Internal,
        ) => refused(error),
        Some(ErrorCode::NotAuthorized) if proven => {
            let mut message = words(&error.message);
            if !message.contains("join secret") {
                message.push_str(" (join secret)");
            }
            ClientError::SecretRefused {
                url,
                message,
                sent: secret(shared).is_some(),
            }
        }
        code => ClientError::AuthenticationFailed {
            url,
            code,
            message: words(&error.message),
        },
    }
}

fn warn_of_version(shared: &Shared, theirs: Option<&str>) {
    let Some(theirs) = theirs.filter(|theirs| !version::compatible(theirs)) else {
        return;
    };
    if !shared.warned_version.set(true) {
        tracing::warn!(
            hub = shared.shown_url,
            theirs = words(theirs),
            ours = PROTOCOL_VERSION,
            "the hub speaks another version of the protocol; some things may not work"
        );
    }
}

fn bad_challenge(shared: &Shared) -> ClientError {
    ClientError::BadChallenge {
        url: shared.shown_url.clone(),
    }
}

fn not_a_hub(shared: &Shared, reason: &str) -> ClientError {
    ClientError::NotAHub {
        url: shared.shown_url.clone(),
        reason: reason.to_owned(),
    }
}

/// Random text that only this login knows; letters and digits, as hubs demand.
fn hub_nonce() -> Result<String, ClientError> {
    use std::fmt::Write;
    let mut bytes = [0u8; HUB_NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| ClientError::NoRandomness(error.to_string()))?;
    let mut text = String::with_capacity(2 * HUB_NONCE_BYTES);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_nonce_is_long_plain_and_new() {
        let (a, b) = (hub_nonce().unwrap(), hub_nonce().unwrap());
        assert_eq!(a.len(), 64);
        assert!(a.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(a, b);
    }
}
