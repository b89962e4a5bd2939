//! Signing a message and judging the signature of a stored one.
//!
//! A signature says who wrote the parts and whom the author addressed. It does not say that the
//! message is new, nor that it stands in the room that it was meant for: before anything acts on
//! its own, [`check`] must answer [`SigState::Valid`], [`bound_to_room`] must hold, and the pair
//! of author and `uid` must be a new one, which is for the caller to remember.
//! (Source: protocol, "Message signature".)

use parler_protocol::canonical::{Signed, message_bytes};
use parler_protocol::names::{DM_PREFIX, service_room};
use parler_protocol::parts::Hop;
use parler_protocol::{Part, SIG_KIND, SigPart, StoredMessage, Target, TypedPart};

use crate::keypair::{KeyPair, verify};

/// A message before it is signed.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    /// What the send addresses, exactly as the op will say it.
    pub target: &'a Target,
    /// The body. Parts of kind `com.parler.sig` are left out.
    pub parts: Vec<Part>,
    /// Id of the answered message, exactly as the op will say it.
    pub reply_to: Option<&'a str>,
    /// The author's clock, milliseconds since the epoch.
    pub ts: i64,
    /// Unique string, customarily a UUIDv4: receivers refuse a second message with it.
    pub uid: String,
    /// Place in a chain of automatic turns; the signature does not cover it.
    pub hop: Option<Hop>,
}

/// What a look at a message's signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SigState {
    /// There is no well-formed signature part.
    Unsigned,
    /// The holder of `from.id` signed these parts.
    Valid,
    /// There is one, and it is not that of `from.id` over this message.
    Invalid,
}

/// Signs a draft: its parts without any old signature, the new signature part last.
#[must_use]
pub fn sign_message(keys: &KeyPair, draft: Draft<'_>) -> Vec<Part> {
    let mut parts = draft.parts;
    parts.retain(|part| part.kind() != SIG_KIND);
    let signed = Signed {
        from: keys.id().as_str(),
        target: draft.target,
        reply_to: draft.reply_to,
        ts: draft.ts,
        uid: &draft.uid,
    };
    let sig = keys.sign(&message_bytes(signed, &parts));
    let part = SigPart {
        sig,
        alg: "ed25519".to_owned(),
        v: 1,
        ts: draft.ts,
        uid: draft.uid,
        target: draft.target.clone(),
        hop: draft.hop,
    };
    parts.push(part.to_part());
    parts
}

/// Judges the signature of a stored message; the part that was judged comes along.
///
/// The first well-formed signature part counts, any others are ignored and covered by nothing.
#[must_use]
pub fn check(message: &StoredMessage) -> (SigState, Option<SigPart>) {
    let Some(part) = SigPart::find(&message.parts) else {
        return (SigState::Unsigned, None);
    };
    let signed = Signed {
        from: &message.from.id,
        target: &part.target,
        reply_to: message.reply_to.as_deref(),
        ts: part.ts,
        uid: &part.uid,
    };
    let bytes = message_bytes(signed, &message.parts);
    let state = if verify(&message.from.id, &bytes, &part.sig) {
        SigState::Valid
    } else {
        SigState::Invalid
    };
    (state, Some(part))
}

/// Whether the message stands where its author addressed it, seen by the agent `my_id`: the room
/// that was named, the room of the service that was named, or a direct-message room when the
/// author addressed me.
///
/// Tells something only about a part that [`check`] found [`SigState::Valid`]. It is never true
/// of a direct message of my own: its author addressed the peer.
#[must_use]
pub fn bound_to_room(message: &StoredMessage, sig: &SigPart, my_id: &str) -> bool {
    match &sig.target {
        Target::Room { room } => *room == message.room,
        Target::Service { service } => service_room(service) == message.room,
        Target::Dm { agent } => agent == my_id && message.room.starts_with(DM_PREFIX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{EndpointRef, HandoffRef};
    use serde_json::json;

    const ID: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";
    const REPLY_TO: &str = "0199c2f0-0000-7000-8000-000000000001";
    const SIG: &str =
        "aWmi2+nRN0KQXjD9AgODD/ozkIPr6r07yP7HBB1XQXmxV8KRS8FHFUUEiS79TWCrPVO2BHv0EKLaMaowaO6qAQ==";

    fn keys() -> KeyPair {
        KeyPair::from_seed_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    fn room(name: &str) -> Target {
        Target::Room { room: name.into() }
    }

    fn body() -> Vec<Part> {
        let handoff = HandoffRef {
            next: "review the diff".into(),
            summary: None,
            to: Some("reviewer".into()),
            bundle: None,
        };
        vec![Part::text("Tests are green"), handoff.to_part()]
    }

    fn signed(target: &Target, parts: Vec<Part>) -> StoredMessage {
        let draft = Draft {
            target,
            parts,
            reply_to: Some(REPLY_TO),
            ts: 1_760_000_000_000,
            uid: "5f0c7b1a-2c7d-4c6e-9a43-0d3c1f6b7e21".into(),
            hop: Some(Hop {
                n: 1,
                root: "r".into(),
            }),
        };
        StoredMessage {
            seq: 7,
            id: "0199c2f0-0000-7000-8000-000000000002".into(),
            room: "release-train".into(),
            from: EndpointRef {
                id: ID.into(),
                name: "planner".into(),
                role: None,
            },
            parts: sign_message(&keys(), draft),
            mentions: None,
            reply_to: Some(REPLY_TO.into()),
            ts: 1_760_000_000_123,
        }
    }

    #[test]
    fn the_vector_of_the_contract_holds() {
        let target = room("release-train");
        let message = signed(&target, body());
        let (state, part) = check(&message);
        let part = part.unwrap();
        assert_eq!((state, part.sig.as_str()), (SigState::Valid, SIG));
        let covered = Signed {
            from: ID,
            target: &target,
            reply_to: Some(REPLY_TO),
            ts: part.ts,
            uid: &part.uid,
        };
        let bytes = String::from_utf8(message_bytes(covered, &message.parts)).unwrap();
        assert_eq!(bytes.len(), 356);
        assert_eq!(
            bytes,
            r#"{"from":"UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK","parts":[{"kind":"text","text":"Tests are green"},{"kind":"com.parler.handoff","next":"review the diff","to":"reviewer"}],"replyTo":"0199c2f0-0000-7000-8000-000000000001","target":{"kind":"room","room":"release-train"},"ts":1760000000000,"uid":"5f0c7b1a-2c7d-4c6e-9a43-0d3c1f6b7e21","v":1}"#
        );
    }

    #[test]
    fn the_signature_is_the_last_part_and_the_only_one_of_its_kind() {
        let old = signed(&room("elsewhere"), body()).parts;
        let again = signed(&room("release-train"), old);
        assert_eq!(again.parts.len(), 3);
        assert_eq!(again.parts[2].kind(), SIG_KIND);
        assert_eq!(check(&again).0, SigState::Valid);
        assert_eq!(check(&again).1.unwrap().sig, SIG);
    }

    #[test]
    fn a_signature_covers_author_parts_and_the_answered_message() {
        let good = signed(&room("release-train"), body());
        let changed = |change: fn(&mut StoredMessage)| {
            let mut message = good.clone();
            change(&mut message);
            check(&message).0
        };
        assert_eq!(changed(|m| m.parts[0] = Part::text("x")), SigState::Invalid);
        assert_eq!(changed(|m| m.parts.swap(0, 1)), SigState::Invalid);
        assert_eq!(changed(|m| m.reply_to = None), SigState::Invalid);
        assert_eq!(changed(|m| m.from.id = "U".into()), SigState::Invalid);
        // Not covered: the hub's own fields, claims, and where a stray signature part stands.
        assert_eq!(changed(|m| m.room = "svc.x".into()), SigState::Valid);
        assert_eq!(changed(|m| m.from.name = "x".into()), SigState::Valid);
        assert_eq!(changed(|m| m.parts.rotate_right(1)), SigState::Valid);
    }

    #[test]
    fn the_first_well_formed_signature_counts() {
        let stray = |fields: serde_json::Value| Part::Extension {
            kind: SIG_KIND.into(),
            fields: fields.as_object().unwrap().clone(),
        };
        let mut message = signed(&room("release-train"), body());
        message.parts.insert(0, stray(json!({"sig": 1})));
        assert_eq!(check(&message).0, SigState::Valid, "malformed: skipped");
        let forged = json!({"sig":"AAAA","alg":"ed25519","v":1,"ts":1,"uid":"u",
                            "target":{"kind":"room","room":"release-train"}});
        message.parts.insert(0, stray(forged));
        assert_eq!(check(&message).0, SigState::Invalid);
        message.parts.retain(|p| p.kind() != SIG_KIND);
        assert_eq!(check(&message), (SigState::Unsigned, None));
    }

    #[test]
    fn a_message_is_bound_to_the_room_that_its_author_addressed() {
        let bound = |target: Target, stored_in: &str| {
            let mut message = signed(&target, body());
            message.room = stored_in.into();
            let (state, part) = check(&message);
            assert_eq!(state, SigState::Valid);
            bound_to_room(&message, &part.unwrap(), "UME")
        };
        let service = |name: &str| Target::Service {
            service: name.into(),
        };
        let dm = |agent: &str| Target::Dm {
            agent: agent.into(),
        };
        assert!(bound(room("release-train"), "release-train"));
        assert!(!bound(room("release-train"), "other"));
        assert!(bound(room("dm.ab12cd"), "dm.ab12cd"));
        assert!(bound(service("code review"), "svc.code_review"));
        assert!(!bound(service("code review"), "code_review"));
        assert!(!bound(service("code review"), "svc.code review"));
        assert!(bound(dm("UME"), "dm.ab12cd"));
        assert!(!bound(dm("UME"), "release-train"));
        assert!(!bound(dm("UOTHER"), "dm.ab12cd"));
    }
}
