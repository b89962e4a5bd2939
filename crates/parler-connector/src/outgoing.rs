//! A message on its way out: addressed, signed once, keyed once, so that it can be repeated
//! without being stored twice.

use std::time::{SystemTime, UNIX_EPOCH};

use parler_identity::{Draft, KeyPair, sign_message};
use parler_protocol::parts::Hop;
use parler_protocol::{HandoffRef, Part, Send, Target, TypedPart};
use uuid::Uuid;

/// What [`crate::Client::send`] sends.
///
/// ```
/// use parler_connector::Outgoing;
///
/// let mut note = Outgoing::text("release-train", "tests are green");
/// note.mentions = Some(vec!["reviewer".into()]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Where to.
    pub target: Target,
    /// The body. A signature part in it is replaced.
    pub parts: Vec<Part>,
    /// Names or ids: hints.
    pub mentions: Option<Vec<String>>,
    /// Id of the answered message.
    pub reply_to: Option<String>,
    /// Place in a chain of automatic turns; `None` when a person started it.
    pub hop: Option<Hop>,
    /// Seconds until an open turn expires; only beside a handoff part.
    pub deadline_secs: Option<u64>,
}

impl Outgoing {
    /// A message with nothing but target and body.
    #[must_use]
    pub fn new(target: Target, parts: Vec<Part>) -> Self {
        Outgoing {
            target,
            parts,
            mentions: None,
            reply_to: None,
            hop: None,
            deadline_secs: None,
        }
    }

    /// A message to a room by its stored name.
    pub fn to_room(room: impl Into<String>, parts: Vec<Part>) -> Self {
        Self::new(Target::Room { room: room.into() }, parts)
    }

    /// A line of text to a room.
    pub fn text(room: impl Into<String>, text: impl Into<String>) -> Self {
        Self::to_room(room, vec![Part::text(text)])
    }

    /// A turn that is passed on in a room.
    pub fn handoff(room: impl Into<String>, handoff: &HandoffRef) -> Self {
        Self::to_room(room, vec![handoff.to_part()])
    }

    /// Signs the message and gives it its keys: a UUIDv4 `uid` under the signature, a UUIDv7
    /// `clientId` for the hub.
    pub(crate) fn into_send(self, keys: &KeyPair) -> Send {
        let draft = Draft {
            target: &self.target,
            parts: self.parts,
            reply_to: self.reply_to.as_deref(),
            ts: now_ms(),
            uid: Uuid::new_v4().to_string(),
            hop: self.hop,
        };
        let parts = sign_message(keys, draft);
        Send {
            parts,
            target: self.target,
            mentions: self.mentions,
            reply_to: self.reply_to,
            client_id: Some(Uuid::now_v7().to_string()),
            deadline_secs: self.deadline_secs,
        }
    }
}

/// The clock that goes under a signature, milliseconds since the epoch; 0 before it.
fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{SIG_KIND, SigPart};

    #[test]
    fn every_send_has_one_fresh_signature_last_and_a_key_of_its_own() {
        let keys = KeyPair::from_seed_bytes([1; 32]);
        let first = Outgoing::text("r", "hi").into_send(&keys);
        let mut again = Outgoing::text("r", "hi");
        again.parts.clone_from(&first.parts);
        let again = again.into_send(&keys);

        let signatures = |send: &Send| send.parts.iter().filter(|p| p.kind() == SIG_KIND).count();
        assert_eq!((signatures(&first), signatures(&again)), (1, 1));
        assert_eq!(again.parts.last().unwrap().kind(), SIG_KIND);
        assert_ne!(first.client_id, again.client_id);
        let uid = |send: &Send| SigPart::find(&send.parts).unwrap().uid;
        assert_ne!(uid(&first), uid(&again));
        let version = |text: &str| Uuid::parse_str(text).unwrap().get_version_num();
        assert_eq!(version(&uid(&first)), 4);
        assert_eq!(version(first.client_id.as_deref().unwrap()), 7);
    }

    #[test]
    fn the_place_in_a_chain_travels_beside_the_signature() {
        let keys = KeyPair::from_seed_bytes([1; 32]);
        let mut out = Outgoing::text("r", "hi");
        out.hop = Some(Hop {
            n: 3,
            root: "chain".into(),
        });
        let send = out.clone().into_send(&keys);
        assert_eq!(SigPart::find(&send.parts).unwrap().hop, out.hop);
    }
}
