//! Hub URLs, invite links and portable session keys: pure text in, text out.

/// Alphabet of invite codes (32 symbols, none look alike).
pub const CODE_ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Length of an invite code: 40 bits.
pub const CODE_LEN: usize = 8;
/// Length of a token for HTTP: 160 bits of the same alphabet.
pub const TOKEN_LEN: usize = 32;
/// Alphabet of generated join secrets.
pub const SECRET_ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789";
/// Length of a generated join secret.
pub const SECRET_LEN: usize = 32;

const SCHEMES: [&str; 5] = ["parler", "ws", "wss", "http", "https"];

/// A session key as a person pastes it, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// The invite code, as written.
    pub code: String,
    /// The hub that the key names; `None` when it is a bare code.
    pub hub: Option<String>,
}

/// Takes `CODE`, `CODE@HUB` or `HUB/join/CODE` apart. Everything else is a bare code.
#[must_use]
pub fn split_key(pasted: &str) -> SessionKey {
    let text = pasted.trim();
    if let Some((code, hub)) = text.split_once('@')
        && !code.is_empty()
        && !hub.is_empty()
        && !code.contains([':', '/'])
    {
        return SessionKey {
            code: code.trim_end().into(),
            hub: Some(hub.trim_start().into()),
        };
    }
    if let Some((hub, rest)) = text.split_once("/join/") {
        let code = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let scheme = hub.split_once("://").map(|(scheme, _)| scheme);
        if !code.trim().is_empty() && scheme.is_some_and(|s| SCHEMES.contains(&s)) {
            return SessionKey {
                code: code.trim().into(),
                hub: Some(hub.trim_end().into()),
            };
        }
    }
    SessionKey {
        code: text.into(),
        hub: None,
    }
}

/// What people do to a code when they retype it, undone: blanks and dashes dropped, upper case.
/// Only for text that then is a code; anything else comes back trimmed.
#[must_use]
pub fn tidy_code(code: &str) -> String {
    let tidy: String = code
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| c.to_ascii_uppercase())
        .collect();
    if is_code(&tidy) {
        tidy
    } else {
        code.trim().to_owned()
    }
}

/// Whether the text has the form of an invite code.
#[must_use]
pub fn is_code(text: &str) -> bool {
    text.len() == CODE_LEN && text.bytes().all(|b| CODE_ALPHABET.contains(&b))
}

/// The printed form of a session key.
#[must_use]
pub fn portable_key(code: &str, hub: &str) -> String {
    format!("{code}@{hub}")
}

/// The code inside what an op `redeem` carries, as a hub reads it: what follows the last `/join/`,
/// without trailing slashes. Nothing is upper-cased.
#[must_use]
pub fn redeem_code(given: &str) -> &str {
    let given = given.trim();
    match given.rfind("/join/") {
        Some(at) => given[at + "/join/".len()..].trim().trim_end_matches('/'),
        None => given,
    }
}

/// An address of a hub without its scheme and without what may or may not follow it, and whether
/// it is encrypted. An unknown scheme is none: it stays a part of the rest.
fn take_apart(hub: &str) -> (bool, &str) {
    let hub = hub.trim();
    let (scheme, rest) = hub.split_once("://").unwrap_or(("", hub));
    let known = SCHEMES.iter().find(|s| s.eq_ignore_ascii_case(scheme));
    match known {
        Some(&scheme) => (scheme == "wss" || scheme == "https", bare(rest)),
        None => (false, bare(hub)),
    }
}

fn bare(rest: &str) -> &str {
    let rest = rest.trim_end_matches('/');
    rest.strip_suffix("/ws").unwrap_or(rest)
}

/// The WebSocket URL that any spelling of a hub's address means: `wss` and `https` stay
/// encrypted, everything else is plain; `/ws` is added once.
#[must_use]
pub fn dial_url(hub: &str) -> String {
    let (encrypted, rest) = take_apart(hub);
    let scheme = if encrypted { "wss" } else { "ws" };
    format!("{scheme}://{rest}/ws")
}

/// Whether an address is dialled with TLS.
#[must_use]
pub fn is_encrypted(hub: &str) -> bool {
    take_apart(hub).0
}

/// The web address that any spelling of a hub's address means, without a trailing slash: `wss` and
/// `https` stay encrypted; an address that means "every interface" is written as `localhost`.
#[must_use]
pub fn http_url(hub: &str) -> String {
    let dial = dial_url(hub);
    let rest = dial.trim_end_matches("/ws");
    let (scheme, rest) = match rest.strip_prefix("wss://") {
        Some(rest) => ("https", rest),
        None => ("http", rest.strip_prefix("ws://").unwrap_or(rest)),
    };
    let named = ["0.0.0.0", "[::]"].iter().find_map(|any| {
        let behind = rest.strip_prefix(any)?;
        (behind.is_empty() || behind.starts_with([':', '/'])).then_some(behind)
    });
    match named {
        Some(behind) => format!("{scheme}://localhost{behind}"),
        None => format!("{scheme}://{rest}"),
    }
}

/// The link by which a person watches a room in a browser. The token stands behind the `#`: a
/// browser sends that part to nobody, so that it is in no log and no referrer.
#[must_use]
pub fn watch_link(hub: &str, token: &str) -> String {
    format!("{}/#watch={token}", http_url(hub))
}

/// The same for what a room's owner decides.
#[must_use]
pub fn admin_link(hub: &str, token: &str) -> String {
    format!("{}/#admin={token}", http_url(hub))
}

/// Whether two spellings mean the same hub: scheme, trailing slash and case do not matter.
#[must_use]
pub fn same_hub(a: &str, b: &str) -> bool {
    take_apart(a).1.eq_ignore_ascii_case(take_apart(b).1)
}

/// Host part of a hub's address, without user, brackets and port.
#[must_use]
pub fn host_of(hub: &str) -> String {
    let (_, rest) = take_apart(hub);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    if let Some(inner) = authority.strip_prefix('[') {
        return inner.split(']').next().unwrap_or(inner).to_owned();
    }
    authority.split(':').next().unwrap_or(authority).to_owned()
}

/// Whether an address stays on this machine: a loopback IP literal or `localhost`.
#[must_use]
pub fn is_loopback(hub: &str) -> bool {
    let host = host_of(hub);
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: &str, hub: Option<&str>) -> SessionKey {
        SessionKey {
            code: code.into(),
            hub: hub.map(Into::into),
        }
    }

    #[test]
    fn a_key_is_taken_apart_in_its_three_forms() {
        for (pasted, want) in [
            (" A3KELDJR ", key("A3KELDJR", None)),
            (
                "A3KELDJR@wss://hub.example",
                key("A3KELDJR", Some("wss://hub.example")),
            ),
            (
                "parler://hub.example:7070/join/A3KELDJR",
                key("A3KELDJR", Some("parler://hub.example:7070")),
            ),
            (
                "https://h/join/A3KELDJR?x=1#y",
                key("A3KELDJR", Some("https://h")),
            ),
            ("ftp://h/join/A3KELDJR", key("ftp://h/join/A3KELDJR", None)),
            ("A3KELDJR @ h:1", key("A3KELDJR", Some("h:1"))),
            ("@hub", key("@hub", None)),
            ("CODE@", key("CODE@", None)),
            ("wss://user@host/x", key("wss://user@host/x", None)),
        ] {
            assert_eq!(split_key(pasted), want, "{pasted:?}");
        }
    }

    #[test]
    fn a_retyped_code_is_tidied_and_other_text_is_left() {
        assert_eq!(tidy_code(" a3ke-ldjr "), "A3KELDJR");
        assert_eq!(tidy_code("a3ke ldjr"), "A3KELDJR");
        assert_eq!(tidy_code("not a code"), "not a code");
    }

    #[test]
    fn a_hub_reads_the_code_behind_the_last_join() {
        assert_eq!(redeem_code("parler://h/join/ABC/"), "ABC");
        assert_eq!(redeem_code("x/join/A/join/ B "), "B");
        assert_eq!(redeem_code(" abc "), "abc");
    }

    #[test]
    fn every_spelling_dials() {
        for (given, want) in [
            ("wss://h", "wss://h/ws"),
            ("https://h/", "wss://h/ws"),
            ("parler://h:7070", "ws://h:7070/ws"),
            ("h:1", "ws://h:1/ws"),
            (" ws://h/ws ", "ws://h/ws"),
            ("WSS://h", "wss://h/ws"),
            ("ftp://h", "ws://ftp://h/ws"),
        ] {
            assert_eq!(dial_url(given), want);
        }
        assert!(same_hub("parler://H:7070/", "ws://h:7070/ws"));
        assert!(!same_hub("ws://h:7070", "ws://h:7071"));
        assert!(same_hub("wss://h", "https://H/") && !same_hub("ftp://h", "h"));
        assert!(is_encrypted("https://h") && !is_encrypted("h") && !is_encrypted("parler://h"));
    }

    #[test]
    fn every_spelling_has_a_web_address() {
        for (given, want) in [
            ("parler://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("wss://hub.example/", "https://hub.example"),
            ("https://hub.example/x/ws", "https://hub.example/x"),
            ("0.0.0.0:7070", "http://localhost:7070"),
            ("parler://[::]:7070", "http://localhost:7070"),
            ("parler://[::1]:7070", "http://[::1]:7070"),
            ("0.0.0.0.example", "http://0.0.0.0.example"),
        ] {
            assert_eq!(http_url(given), want);
        }
        assert_eq!(
            watch_link("wss://h", "ABC"),
            "https://h/#watch=ABC",
            "never in the query"
        );
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        for hub in [
            "ws://127.0.0.1:7070",
            "localhost",
            "parler://[::1]:7070",
            "127.9.9.9",
        ] {
            assert!(is_loopback(hub), "{hub}");
        }
        for hub in [
            "ws://10.0.0.1",
            "localhost.example",
            "0.0.0.0:7070",
            "ws://127.0.0.1:7070@h.example",
            "ftp://localhost",
        ] {
            assert!(!is_loopback(hub), "{hub}");
        }
    }
}
