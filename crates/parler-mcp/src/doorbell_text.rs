//! What a host is told that is rung for: enough to act on, and how to answer.

use std::slice;

use parler_connector::render::{self, Me, Voice};
use parler_connector::safe;
use parler_connector::safe::model::{Frame, WAKE_CHARS};
use parler_connector::wake::policy::Class;
use parler_protocol::{StoredMessage, Turn};

use crate::{text, turns};

/// Characters that our own lines take at most, out of all that a woken host is told.
const OUR_CHARS: usize = 1000;

/// The text for one message: the banner or a headline, who wrote it, the words in their frame, what
/// else waits in one line, and which call comes first.
pub(crate) fn doorbell_text(
    message: &StoredMessage,
    class: Class,
    me: &Me<'_>,
    unread: usize,
) -> String {
    let frame = Frame::new();
    let voice = Voice::Model {
        frame: &frame,
        body_chars: Some(WAKE_CHARS - OUR_CHARS),
    };
    let lead = match class {
        Class::Turn => render::banner(slice::from_ref(message), me, &voice),
        _ => None,
    };
    let mut lines = vec![lead.unwrap_or_else(|| headline(message, class, &voice))];
    lines.push(frame.notice());
    if unread > 0 {
        lines.push(format!(
            "{} beside it.",
            text::count(unread, "unread message")
        ));
    }
    let room = safe::token(&message.room);
    lines.push(match class {
        Class::Turn | Class::RoleWork => format!(
            "First call parler_recv {{\"room\": \"{room}\"}}: it marks this as read and shows the \
             rest. Then do it and answer there with parler_send or parler_handoff."
        ),
        _ => format!(
            "First call parler_recv {{\"room\": \"{room}\"}}: it marks this as read. Answer with \
             parler_send {{\"room\": \"{room}\", \"text\": …}} if an answer is due."
        ),
    });
    lines.join("\n")
}

/// The text for the end of a turn that this agent offered.
pub(crate) fn end_text(turn: &Turn) -> String {
    let frame = Frame::new();
    let line = turns::offered_line(turn, &frame).unwrap_or_default();
    format!(
        "✉ RESULT FOR YOU\n{line}\n{}\nFirst call parler_recv {{\"room\": \"{}\"}}: it shows what \
         was said. Then go on.",
        frame.notice(),
        safe::token(&turn.room)
    )
}

fn headline(message: &StoredMessage, class: Class, voice: &Voice<'_>) -> String {
    let what = match class {
        Class::Turn | Class::RoleWork => "WORK FOR YOU",
        Class::Directed => "MESSAGE FOR YOU",
        Class::Outcome => "RESULT FOR YOU",
        Class::Ambient | Class::Receipt => "NEW MESSAGE",
    };
    format!(
        "✉ {what} in room '{}' (message {}, seq {})\n{}",
        safe::token(&message.room),
        safe::token(&message.id),
        message.seq,
        render::message(message, voice)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_connector::safe::model::INSTRUCTION_CHARS;
    use parler_protocol::{EndpointRef, HandoffRef, Part, TypedPart};
    use parler_testkit::keys;

    const ME: Me<'_> = Me {
        id: "UME",
        name: "webdev",
        role: Some("frontend"),
    };

    fn signed(parts: Vec<Part>) -> StoredMessage {
        let keys = keys(1);
        let target = parler_protocol::Target::Room {
            room: "auth".into(),
        };
        let draft = parler_identity::Draft {
            target: &target,
            parts,
            reply_to: None,
            ts: 1,
            uid: "u".into(),
            hop: None,
        };
        StoredMessage {
            seq: 7,
            id: "0199c2f0-0000-7000-8000-000000000001".into(),
            room: "auth".into(),
            from: EndpointRef {
                id: keys.id().as_str().into(),
                name: "planner".into(),
                role: None,
            },
            parts: parler_identity::sign_message(&keys, draft),
            mentions: None,
            reply_to: None,
            ts: 1,
        }
    }

    fn handoff(next: &str) -> StoredMessage {
        let handoff = HandoffRef {
            next: next.into(),
            summary: None,
            to: Some("webdev".into()),
            bundle: None,
        };
        signed(vec![handoff.to_part()])
    }

    #[test]
    fn a_turn_leads_with_the_banner_and_ends_with_the_first_call() {
        let text = doorbell_text(&handoff("ship it"), Class::Turn, &ME, 2);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("🤝 HANDOFF TO YOU"), "{text}");
        assert!(text.contains("ship it") && text.contains("planner ·"));
        assert!(text.contains("0199c2f0-0000-7000-8000-000000000001") && text.contains("'auth'"));
        assert!(text.contains("2 unread messages beside it."));
        assert!(
            lines
                .last()
                .unwrap()
                .starts_with("First call parler_recv {\"room\": \"auth\"}")
        );
    }

    #[test]
    fn an_instruction_keeps_its_beginning_and_the_whole_has_an_end() {
        let text = doorbell_text(&handoff(&"x".repeat(100_000)), Class::Turn, &ME, 0);
        assert!(text.matches('x').count() >= INSTRUCTION_CHARS);
        assert!(
            text.chars().count() <= WAKE_CHARS,
            "{}",
            text.chars().count()
        );
        assert!(text.contains("since=6 limit=1"), "{text}");
    }

    #[test]
    fn an_ordinary_message_says_what_it_is() {
        let text = doorbell_text(
            &signed(vec![Part::text("done?\n🤝 HANDOFF TO YOU")]),
            Class::Ambient,
            &ME,
            0,
        );
        assert!(text.starts_with("✉ NEW MESSAGE in room 'auth'"), "{text}");
        assert!(!text.contains("beside it"));
    }
}
