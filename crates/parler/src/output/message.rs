//! How messages look on a terminal and as JSON.
//!
//! The words are the connector's, the same that a model reads; here they get colours and the shape
//! of an object. The banner of a handoff that is for the reader leads everything else.

use parler_connector::render::{self, Me, Voice};
use parler_connector::wake::once::{Freshness, Once};
use parler_identity::SigState;
use parler_identity::message::{bound_to_room, check};
use parler_protocol::{HandoffRef, SigPart, StoredMessage, TypedPart};
use serde::Serialize;

use super::human::{Paint, fit};

/// How far a message's author is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// Signed by the author, for this room.
    Valid,
    /// Not signed.
    Unsigned,
    /// The signature is not the author's.
    Invalid,
    /// Signed by the author for another room, and brought here by somebody.
    Misplaced,
}

impl Proof {
    fn of(message: &StoredMessage, me: &Me<'_>) -> Proof {
        match check(message) {
            (SigState::Valid, Some(sig)) => {
                let here = message.from.id == me.id || bound_to_room(message, &sig, me.id);
                if here { Proof::Valid } else { Proof::Misplaced }
            }
            (SigState::Valid | SigState::Unsigned, _) => Proof::Unsigned,
            (SigState::Invalid, _) => Proof::Invalid,
        }
    }
}

/// Whether a message is a handoff by somebody else that is for the reader.
pub fn is_handoff_to(message: &StoredMessage, me: &Me<'_>) -> bool {
    message.from.id != me.id
        && HandoffRef::find(&message.parts).is_some_and(|handoff| me.is_meant(&handoff))
}

/// Whether a message hands the reader a turn that an earlier one handed over already: the same
/// signed words under another id. What it finds new it remembers. When the ledger cannot be used a
/// message counts as new: it is only shown.
pub fn is_offered_again(message: &StoredMessage, me: &Me<'_>, once: &Once) -> bool {
    if !is_handoff_to(message, me) || Proof::of(message, me) != Proof::Valid {
        return false;
    }
    let sig = SigPart::find(&message.parts);
    sig.is_some_and(|sig| matches!(once.admit(message, &sig), Ok(Freshness::Replay)))
}

/// As [`banner`], without what is offered again.
pub fn new_banner(
    messages: &[StoredMessage],
    me: &Me<'_>,
    once: &Once,
    paint: Paint,
) -> Option<String> {
    let is_new = |message: &&StoredMessage| !is_offered_again(message, me, once);
    let new: Vec<_> = messages.iter().filter(is_new).cloned().collect();
    banner(&new, me, paint)
}

/// As [`line()`], with a word on a turn that is offered again.
pub fn line_once(message: &StoredMessage, me: &Me<'_>, once: &Once, paint: Paint) -> String {
    let shown = line(message, me, paint);
    if is_offered_again(message, me, once) {
        let again = paint.warn("    (an older message offered again)");
        return format!("{shown}\n{again}");
    }
    shown
}

/// What leads a reading with handoffs for the reader.
pub fn banner(messages: &[StoredMessage], me: &Me<'_>, paint: Paint) -> Option<String> {
    let banner = fit(render::banner(messages, me, &Voice::Terminal)?);
    let (first, rest) = banner.split_once('\n').unwrap_or((&banner, ""));
    Some(format!("{}\n{rest}", paint.turn(first)))
}

/// One message, on one line or more.
pub fn line(message: &StoredMessage, me: &Me<'_>, paint: Paint) -> String {
    let shown = fit(render::message(message, &Voice::Terminal));
    match Proof::of(message, me) {
        Proof::Valid => shown,
        Proof::Unsigned => paint.warn(&shown),
        Proof::Invalid => paint.bad(&shown),
        Proof::Misplaced => paint.bad(&format!("{shown}\n    (signed for another room)")),
    }
}

/// A message for a program: as the hub has it, and what this side makes of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    #[serde(flatten)]
    message: &'a StoredMessage,
    signature: Proof,
    own: bool,
    handoff_to_you: bool,
    /// A turn that an earlier message handed over already.
    offered_again: bool,
}

impl<'a> Shown<'a> {
    /// The message as that reader sees it.
    pub fn new(message: &'a StoredMessage, me: &Me<'_>, once: &Once) -> Shown<'a> {
        let offered_again = is_offered_again(message, me, once);
        Shown {
            message,
            signature: Proof::of(message, me),
            own: message.from.id == me.id,
            handoff_to_you: is_handoff_to(message, me) && !offered_again,
            offered_again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_identity::{Draft, KeyPair, sign_message};
    use parler_protocol::{EndpointRef, Part, Target};

    const PLAIN: Paint = Paint::new(false);
    const ME: Me<'static> = Me {
        id: "UME",
        name: "webdev",
        role: Some("frontend"),
    };

    fn message(parts: Vec<Part>) -> StoredMessage {
        let keys = KeyPair::from_seed_bytes([9; 32]);
        let target = Target::Room {
            room: "auth".into(),
        };
        let draft = Draft {
            target: &target,
            parts,
            reply_to: None,
            ts: 1,
            uid: "u".into(),
            hop: None,
        };
        StoredMessage {
            seq: 7,
            id: "0198".into(),
            room: "auth".into(),
            from: EndpointRef {
                id: keys.id().to_string(),
                name: "planner".into(),
                role: Some("architect".into()),
            },
            parts: sign_message(&keys, draft),
            mentions: None,
            reply_to: None,
            ts: 1,
        }
    }

    fn handoff(to: &str) -> StoredMessage {
        let handoff = HandoffRef {
            next: "review it".into(),
            summary: None,
            to: Some(to.into()),
            bundle: None,
        };
        message(vec![handoff.to_part()])
    }

    #[test]
    fn a_message_from_another_room_is_marked() {
        let mut moved = message(vec![Part::text("hi")]);
        assert!(!line(&moved, &ME, PLAIN).contains("another room"));
        moved.room = "other".into();
        assert!(line(&moved, &ME, PLAIN).contains("signed for another room"));
        assert_eq!(Proof::of(&moved, &ME), Proof::Misplaced);
        moved.parts[0] = Part::text("changed");
        assert_eq!(Proof::of(&moved, &ME), Proof::Invalid);
    }

    #[test]
    fn a_banner_leads_and_only_for_the_addressee() {
        let shown = banner(&[handoff("WebDev")], &ME, PLAIN).unwrap();
        assert!(shown.starts_with("🤝 HANDOFF TO YOU\n"), "{shown}");
        assert!(shown.contains("review it"));
        assert!(banner(&[handoff("designer")], &ME, PLAIN).is_none());
    }

    #[test]
    fn a_turn_offered_again_does_not_lead() {
        let base = tempfile::tempdir().unwrap();
        let once = Once::open(base.path(), ME.id);
        let first = handoff("webdev");
        let mut again = first.clone();
        (again.seq, again.id) = (8, "0199".into());
        for (message, leads) in [
            (&first, true),
            (&first, true),
            (&again, false),
            (&again, false),
            (&first, true),
        ] {
            let shown = new_banner(std::slice::from_ref(message), &ME, &once, PLAIN);
            assert_eq!(shown.is_some(), leads);
            let shown = line_once(message, &ME, &once, PLAIN);
            assert_eq!(
                shown.ends_with("\n    (an older message offered again)"),
                !leads
            );
        }
    }

    #[test]
    fn a_program_gets_the_message_and_the_judgement() {
        let base = tempfile::tempdir().unwrap();
        let once = Once::open(base.path(), ME.id);
        let message = handoff("frontend");
        let value = |m| serde_json::to_value(Shown::new(m, &ME, &once)).unwrap();
        let first = value(&message);
        assert_eq!(first["seq"], 7);
        assert_eq!(first["from"]["name"], "planner");
        assert_eq!(first["signature"], "valid");
        let judged = |v: &serde_json::Value| {
            ["own", "handoffToYou", "offeredAgain"].map(|key| v[key].as_bool().unwrap())
        };
        assert_eq!(judged(&first), [false, true, false]);
        assert_eq!(judged(&value(&message)), [false, true, false], "read again");
        let mut again = message.clone();
        (again.seq, again.id) = (8, "0199".into());
        assert_eq!(judged(&value(&again)), [false, false, true]);
    }
}
