//! What of a hub's reply may reach a person or a shell.
//!
//! Codes, links and names of rooms stand in output that is copied into command lines. Hubs make
//! them of a small alphabet; a reply with anything else is refused, however it came about. This
//! file looks at replies only and judges no message's content.

use parler_protocol::limits::MAX_FIELD_BYTES;
use parler_protocol::{Invited, Pulled, RoomInfo, Sent, Turn, Turns, links};

use crate::error::ClientError;

/// Characters of a link besides ASCII letters and digits; none of them ends a word of a shell or
/// has it do something.
const LINK_MARKS: &[u8] = b"-._~:/@%+=[]";

/// Bytes of a message's id at most: hubs make UUIDs.
const MAX_MESSAGE_ID_BYTES: usize = 128;

/// An invitation whose code, link and room can be repeated.
pub(crate) fn invited(invited: Invited) -> Result<Invited, ClientError> {
    if !links::is_code(&invited.code) {
        return Err(refuse("invite", "a code that is none"));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || LINK_MARKS.contains(&b);
    if invited.url.len() > MAX_FIELD_BYTES || !invited.url.bytes().all(plain) {
        return Err(refuse("invite", "a link that is none"));
    }
    room("invite", &invited.room)?;
    Ok(invited)
}

/// A room's name as hubs store them.
pub(crate) fn room(what: &'static str, name: &str) -> Result<(), ClientError> {
    match is_room(name) {
        true => Ok(()),
        false => Err(refuse(what, "a room whose name no room can have")),
    }
}

/// A stored message. What is said of a turn counts only if it is this message's.
pub(crate) fn sent(mut sent: Sent) -> Result<Sent, ClientError> {
    room("send", &sent.room)?;
    let (id, room) = (&sent.id, sent.room.as_str());
    let its_own = |turn: &Turn| turn.message == *id && is_turn(Some(room), turn);
    if !sent.turn.as_ref().is_none_or(its_own) {
        tracing::warn!("the hub answers with the turn of another message");
        sent.turn = None;
    }
    Ok(sent)
}

/// Leaves out rooms with names that no room can have.
pub(crate) fn rooms(mut rooms: Vec<RoomInfo>) -> Vec<RoomInfo> {
    let all = rooms.len();
    rooms.retain(|room| is_room(&room.name));
    if rooms.len() < all {
        tracing::warn!(
            left_out = all - rooms.len(),
            "the hub lists rooms with names that no room can have"
        );
    }
    rooms
}

/// A page of the room that was asked for: messages of other rooms go, so that none that was
/// written and signed elsewhere is taken for one of this room.
pub(crate) fn page(asked: &str, mut page: Pulled) -> Pulled {
    let all = page.messages.len();
    page.messages.retain(|message| message.room == asked);
    if page.messages.len() < all {
        tracing::warn!(
            dropped = all - page.messages.len(),
            "the hub answers with messages of another room"
        );
    }
    asked.clone_into(&mut page.room);
    page
}

/// Leaves out turns of rooms that were not asked for, and those whose id no hub makes.
pub(crate) fn turns(asked: Option<&str>, mut turns: Turns) -> Turns {
    let all = turns.turns.len();
    turns.turns.retain(|turn| is_turn(asked, turn));
    if turns.turns.len() < all {
        tracing::warn!(
            dropped = all - turns.turns.len(),
            "the hub lists turns with names or rooms that they cannot have"
        );
    }
    turns
}

/// Whether a turn can stand in that room (in any), under the id of a message.
pub(crate) fn is_turn(asked: Option<&str>, turn: &Turn) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let id = &turn.message;
    asked.is_none_or(|room| room == turn.room)
        && is_room(&turn.room)
        && !id.is_empty()
        && id.len() <= MAX_MESSAGE_ID_BYTES
        && id.bytes().all(plain)
}

/// Whether a room can have this name.
pub(crate) fn is_room(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= MAX_FIELD_BYTES && name.bytes().all(plain)
}

fn refuse(what: &'static str, got: &str) -> ClientError {
    ClientError::Unexpected {
        what,
        got: got.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::names;

    #[test]
    fn names_that_hubs_make_pass_and_what_a_shell_would_run_does_not() {
        for good in ["team", "room.abc234", "svc.build_1", &names::token("é b")] {
            assert!(room("send", good).is_ok(), "{good}");
        }
        let long = "r".repeat(MAX_FIELD_BYTES + 1);
        for bad in [
            "",
            "a b",
            "a;b",
            "$(x)",
            "a\nb",
            "\u{1b}[2J",
            "é",
            "a'",
            &long,
        ] {
            assert!(room("send", bad).is_err(), "{bad}");
        }
    }
}
