//! What a hook tells the model that it wakes or keeps going: enough to act on, and how to answer.

use std::slice;

use parler_connector::render::{self, Me, Voice};
use parler_connector::safe;
use parler_connector::safe::model::{Frame, WAKE_CHARS};
use parler_connector::wake::policy::Class;
use parler_protocol::StoredMessage;

use crate::output::human::count;

/// Characters that our own lines take at most, out of all that is told.
const OUR_CHARS: usize = 1000;

/// The text for one message: the banner or a headline, the words in their frame, what else is
/// unread, and which call comes first.
pub fn wake_text(message: &StoredMessage, class: Class, me: &Me<'_>, beside: usize) -> String {
    let frame = Frame::new();
    let voice = Voice::Model {
        frame: &frame,
        body_chars: Some(WAKE_CHARS - OUR_CHARS),
    };
    let room = safe::token(&message.room);
    let banner = (class == Class::Turn)
        .then(|| render::banner(slice::from_ref(message), me, &voice))
        .flatten();
    let mut lines = vec![banner.unwrap_or_else(|| {
        let (id, seq) = (safe::token(&message.id), message.seq);
        let shown = render::message(message, &voice);
        format!("✉ MESSAGE FOR YOU in room '{room}' (message {id}, seq {seq})\n{shown}")
    })];
    lines.push(frame.notice());
    if beside > 0 {
        lines.push(format!("{} beside it.", count(beside, "unread message")));
    }
    lines.push(format!(
        "First call parler_recv {{\"room\": \"{room}\"}}: it marks this as read and shows the rest. \
         Then do it, and answer there with parler_send or parler_handoff."
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_identity::{Draft, KeyPair, sign_message};
    use parler_protocol::{EndpointRef, HandoffRef, Part, Target, TypedPart};

    fn message(parts: Vec<Part>) -> StoredMessage {
        let keys = KeyPair::from_seed_bytes([9; 32]);
        let target = Target::Room {
            room: "auth".into(),
        };
        let (uid, ts) = ("u".into(), 1);
        let draft = Draft {
            target: &target,
            parts,
            reply_to: None,
            ts,
            uid,
            hop: None,
        };
        StoredMessage {
            seq: 7,
            id: "0198".into(),
            room: "auth".into(),
            from: EndpointRef {
                id: keys.id().to_string(),
                name: "planner".into(),
                role: None,
            },
            parts: sign_message(&keys, draft),
            mentions: None,
            reply_to: None,
            ts,
        }
    }

    const ME: Me<'static> = Me {
        id: "UME",
        name: "webdev",
        role: None,
    };

    #[test]
    fn a_turn_leads_with_the_banner_and_ends_with_the_call() {
        let next = "build it ".repeat(300);
        let handoff = HandoffRef {
            next: next.clone(),
            summary: None,
            to: None,
            bundle: None,
        };
        let text = wake_text(&message(vec![handoff.to_part()]), Class::Turn, &ME, 2);
        assert!(text.starts_with("🤝 HANDOFF TO YOU\n"), "{text}");
        assert!(text.contains("planner"), "{text}");
        assert!(
            text.contains(&next[..2000]),
            "an instruction is never cut below 2000 characters"
        );
        assert!(text.contains("2 unread messages beside it."));
        assert!(
            text.lines()
                .last()
                .unwrap()
                .contains("parler_recv {\"room\": \"auth\"}")
        );
    }

    #[test]
    fn the_whole_stays_small_and_what_was_cut_is_named() {
        let long = message(vec![Part::text("x".repeat(100_000))]);
        let text = wake_text(&long, Class::Directed, &ME, 0);
        assert!(
            text.chars().count() <= WAKE_CHARS,
            "{}",
            text.chars().count()
        );
        assert!(text.contains("of message 0198"), "{text}");
    }
}
