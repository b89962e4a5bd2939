//! What the fuzz targets do with bytes: every decoder of text that a peer or a person wrote, and
//! the laws that hold for whatever it accepts. A broken law is a panic.
//!
//! The folder `fuzz` feeds these functions with libFuzzer; the tests replay its seeds through the
//! same ones.

use std::net::IpAddr;

use parler_connector::{fuzzing, safe};
use parler_hub::conn::envelope::{self, Request};
use parler_hub::conn::parts;
use parler_identity::{KeyPair, parse_id};
use parler_protocol::{ClientFrame, Part, ServerFrame, canonical, clean, links};
use serde_json::Value;

/// A target: takes any bytes, panics where a law is broken.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its folder of seeds.
pub const TARGETS: &[(&str, Target)] = &[
    ("client_frame", client_frame),
    ("server_frame", server_frame),
    ("parts", parts),
    ("links", links),
    ("nkey", nkey),
    ("canonical", canonical_form),
    ("shown", shown),
];

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// What a hub reads. A decoded frame can be written, and what was written means the same.
pub fn client_frame(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(request) = envelope::decode(text) else {
        return;
    };
    match request {
        Request::Send(send) => {
            let read = serde_json::from_str::<Vec<Part>>(&send.parts.json);
            assert!(read.is_ok(), "accepted parts that nobody can read");
        }
        Request::Hello(hello) => same_again(&ClientFrame::Hello(hello)),
        Request::Pull(pull) => same_again(&ClientFrame::Pull(pull)),
        Request::Other(frame) if fits(&frame) => same_again(&frame),
        Request::Other(_) => {}
        Request::Refused(_) | Request::Piece(_) => {}
    }
}

/// Whether the numbers of a vector fit: the op refuses others, which JSON cannot write.
fn fits(frame: &ClientFrame) -> bool {
    let embedding = match frame {
        ClientFrame::Remember(op) => &op.embedding,
        ClientFrame::Recall(op) => &op.embedding,
        _ => &None,
    };
    embedding.iter().flatten().all(|number| number.is_finite())
}

fn same_again(frame: &ClientFrame) {
    let written = serde_json::to_string(frame).expect("a frame can be written");
    let read: ClientFrame = serde_json::from_str(&written).expect("a written frame can be read");
    assert_eq!(&read, frame);
    assert!(envelope::decode(&written).is_ok(), "{written}");
}

/// What a client reads. A decoded frame can be written, and what was written means the same.
pub fn server_frame(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let heard = fuzzing::server_frame(text);
    if let Ok(frame) = serde_json::from_str::<ServerFrame>(text) {
        assert!(heard, "a frame that the client calls garbage");
        let written = serde_json::to_string(&frame).expect("a frame can be written");
        let read: ServerFrame = serde_json::from_str(&written).expect("what was written is read");
        assert_eq!(read, frame);
    }
}

/// Parts of a message. What a hub accepts, every reader can read inside the frame that brings it,
/// and reads the same.
pub fn parts(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(checked) = parts::normalise(text) else {
        return;
    };
    let direct: Vec<Part> = serde_json::from_str(text).expect("accepted parts can be read");
    let frame = format!(
        r#"{{"type":"pulled","room":"r","cursor":1,"messages":[{{"seq":1,"id":"m","room":"r",
        "from":{{"id":"U","name":"n"}},"ts":1,"parts":{}}}]}}"#,
        checked.json
    );
    match serde_json::from_str(&frame) {
        Ok(ServerFrame::Pulled(page)) => assert_eq!(page.messages[0].parts, direct),
        other => panic!("a page that no reader can read: {other:?}"),
    }
}

/// What a person pastes: session keys, codes and addresses of hubs.
pub fn links(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let key = links::split_key(text);
    if let Some(hub) = &key.hub
        && links::is_code(&key.code)
    {
        let printed = links::portable_key(&key.code, hub);
        let again = links::split_key(&printed);
        assert_eq!(again.code, key.code);
        assert_eq!(again.hub.as_ref(), Some(hub));
    }
    let tidy = links::tidy_code(text);
    assert_eq!(links::tidy_code(&tidy), tidy);
    let _ = links::redeem_code(text);
    let hub = key.hub.as_deref().unwrap_or(text);
    let dialled = links::dial_url(hub);
    assert_eq!(links::dial_url(&dialled), dialled);
    assert!(links::same_hub(hub, hub));
    assert!(links::same_hub(hub, &dialled), "{hub:?} {dialled:?}");
    // What decides whether secrets may go out in clear must not be fooled.
    if let Some(host) = fuzzing::dialled_host(&dialled) {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stays = bare.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        assert!(stays || !links::is_loopback(hub), "{hub:?} goes to {host}");
        assert!(stays || !links::is_loopback(&dialled), "{dialled:?}");
    }
}

/// Ids and seeds: one text for a key, and no other.
pub fn nkey(data: &[u8]) {
    if let Some(text) = text(data) {
        if let Some(id) = parse_id(text) {
            assert_eq!(id.as_str(), text);
        }
        if let Ok(keys) = KeyPair::from_seed_text(text) {
            assert_eq!(keys.seed_text().as_str(), text);
        }
    }
    let Some((seed, rest)) = data.split_first_chunk::<32>() else {
        return;
    };
    let keys = KeyPair::from_seed_bytes(*seed);
    let same = KeyPair::from_seed_text(&keys.seed_text()).expect("a written seed can be read");
    assert_eq!(same.id(), keys.id());
    let id = keys.id().as_str();
    assert_eq!(parse_id(id).as_ref(), Some(keys.id()));
    if let [at, letter, ..] = *rest {
        let mut changed = id.as_bytes().to_vec();
        let at = usize::from(at) % changed.len();
        if changed[at] != letter {
            changed[at] = letter;
            let refused = String::from_utf8(changed).map_or(true, |id| parse_id(&id).is_none());
            assert!(refused, "one wrong letter is noticed");
        }
    }
}

/// The bytes that are signed: they mean the value that they were made of, and give themselves
/// again. Otherwise a message would not verify any more once it was read and written.
pub fn canonical_form(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let bytes = canonical::to_vec(&value);
    let read: Value = serde_json::from_slice(&bytes).expect("canonical bytes can be read");
    assert_eq!(
        String::from_utf8(canonical::to_vec(&read)),
        String::from_utf8(bytes)
    );
    assert_eq!(read, value);
}

/// Text of a peer on its way to a terminal, a model or a file: nothing is left that drives one.
pub fn shown(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let quiet = |c: char| !c.is_control() && !clean::is_invisible(c);
    let on_terminal = safe::terminal::text(text);
    assert!(on_terminal.chars().all(|c| c == '\n' || quiet(c)));
    let fitted = safe::terminal::fit(&on_terminal, 20);
    assert!(fitted.chars().all(|c| c == '\n' || quiet(c)));
    for line in [
        safe::terminal::line(text),
        safe::terminal::short_line(text, 40),
        safe::name(text),
        safe::token(text),
        safe::words(text, 40),
        clean::name(text),
    ] {
        assert!(line.chars().all(quiet), "{line:?}");
    }
    assert_eq!(clean::name(&clean::name(text)), clean::name(text));
    let base = safe::path::base_name(text);
    let plain = !base.is_empty() && base.len() <= 255 && base != "." && base != "..";
    assert!(
        plain && !base.contains(['/', '\\', '\0']) && !base.starts_with('-'),
        "{base:?}"
    );
    let wrapped = safe::model::Frame::with_tag("peer-abc").wrap(text);
    assert_eq!(wrapped.matches("peer-abc").count(), 2, "{wrapped:?}");
    assert!(wrapped.chars().all(|c| c == '\n' || c == '\t' || quiet(c)));
}
