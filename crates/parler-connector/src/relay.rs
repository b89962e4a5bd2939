//! Whose login is it that a hub asks for?
//!
//! A challenge names the hub that made it: a part of the SHA-256 of the hub's public address. A
//! hub that a client was lured to can fetch a challenge of another hub and pass it on, to be let in
//! there as that client. Where the other hub is one that the client knows, the name gives this
//! away; here it is compared. Of hubs that the client does not know nothing can be said.

use parler_protocol::links;
use sha2::{Digest, Sha256};

/// Schemes in which a hub may have been told its address.
const SCHEMES: [&str; 5] = ["parler", "ws", "wss", "http", "https"];
/// How this machine is called.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// Ports that an address leaves out.
const USUAL_PORTS: [&str; 2] = [":443", ":80"];
/// Hex digits of the name of a hub in a challenge.
const NAME_DIGITS: usize = 12;

/// The known hub that made this challenge, when that is another one than was dialled.
pub(crate) fn relayed_from<'a>(
    challenge: &str,
    dialled: &str,
    known: &'a [String],
) -> Option<&'a str> {
    let maker = challenge.split(':').nth(2)?;
    let made_by = |hub: &str| spellings(hub).iter().any(|url| name_of(url) == maker);
    known
        .iter()
        .filter(|hub| !hub.trim().is_empty() && !links::same_hub(hub, dialled))
        .find(|hub| made_by(hub) && !made_by(dialled))
        .map(String::as_str)
}

/// How a hub at that address may have been told what its address is.
fn spellings(hub: &str) -> Vec<String> {
    let hub = hub.trim().trim_end_matches('/');
    let place = hub.split_once("://").map_or(hub, |(_, place)| place);
    let place = place.trim_end_matches("/ws").trim_end_matches('/');
    let mut places = vec![place.to_owned(), place.to_ascii_lowercase()];
    if links::is_loopback(hub) {
        let (authority, path) = match place.find('/') {
            Some(at) => place.split_at(at),
            None => (place, ""),
        };
        // Behind the brackets of an address of six.
        let from = authority.rfind(']').unwrap_or(0);
        let port = authority[from..]
            .find(':')
            .map_or("", |at| &authority[from + at..]);
        places.extend(LOOPBACK.map(|host| format!("{host}{port}{path}")));
    }
    let usual: Vec<_> = places
        .iter()
        .filter_map(|place| USUAL_PORTS.iter().find_map(|port| place.strip_suffix(port)))
        .map(str::to_owned)
        .collect();
    let bare = places.iter().filter(|place| !place.contains([':', '/']));
    let with_port: Vec<_> = bare
        .flat_map(|place| USUAL_PORTS.map(|port| format!("{place}{port}")))
        .collect();
    places.extend(usual);
    places.extend(with_port);
    let whole = |place: &String| SCHEMES.map(|scheme| format!("{scheme}://{place}"));
    let mut all: Vec<_> = places.iter().flat_map(whole).collect();
    all.push(hub.to_owned());
    all
}

fn name_of(url: &str) -> String {
    use std::fmt::Write;
    let digest = Sha256::digest(url.as_bytes());
    digest
        .iter()
        .take(NAME_DIGITS / 2)
        .fold(String::new(), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(url: &str) -> String {
        format!("parler-auth:v1:{}:1:x", name_of(url))
    }

    fn known(hubs: &[&str]) -> Vec<String> {
        hubs.iter().map(|&hub| hub.to_owned()).collect()
    }

    #[test]
    fn a_challenge_of_another_known_hub_is_recognised_however_that_was_spelled() {
        for (told, spelled) in [
            ("parler://127.0.0.1:7071", "parler://127.0.0.1:7071"),
            ("parler://127.0.0.1:7071", "ws://localhost:7071/ws"),
            ("parler://[::1]:7071", "127.0.0.1:7071"),
            ("parler://127.0.0.1:7071", "[::1]:7071"),
            ("wss://hub.example", "https://HUB.example/"),
            ("https://hub.example", "parler://hub.example:443"),
            ("parler://hub.example:80", "hub.example"),
            ("https://hub.example/team", "wss://hub.example/team/ws"),
        ] {
            let hubs = known(&["", "ws://10.0.0.9", spelled]);
            assert_eq!(
                relayed_from(&challenge(told), "wss://evil.example", &hubs),
                Some(spelled),
                "{told}"
            );
        }
    }

    #[test]
    fn a_hubs_own_challenge_and_that_of_an_unknown_hub_pass() {
        let hubs = known(&["parler://127.0.0.1:7071", "wss://hub.example"]);
        for (told, dialled) in [
            ("wss://hub.example", "https://hub.example/"),
            ("parler://127.0.0.1:7071", "localhost:7071"),
            ("wss://other.example", "ws://10.0.0.9:7070"),
        ] {
            assert_eq!(
                relayed_from(&challenge(told), dialled, &hubs),
                None,
                "{told}"
            );
        }
        assert_eq!(relayed_from("", "ws://h", &hubs), None);
    }

    #[test]
    fn a_hub_is_named_as_hubs_do_it() {
        // SHA-256 of the address, the first twelve hex digits.
        assert_eq!(name_of("abc"), "ba7816bf8f01");
    }
}
