//! Which message may wake this agent: a pure function, the same for the live path, for catching up
//! after a reconnect, for hooks and for workers.
//!
//! The hub delivers everything to everyone entitled; what is *woken for* is decided here, by the
//! receiver. A message is first put into a [`Class`], then the receiver's attention says whether
//! that class wakes. This is the decision for a hub that keeps no ledger of turns: a handoff that
//! is meant for me, and work dispatched to a role that I serve, count as directed.
//!
//! It never says that a message is new: that is [`crate::wake::once`]'s, and a message that wakes
//! must pass there too.

use parler_identity::message::check;
use parler_identity::{SigState, bound_to_room};
use parler_protocol::names::{DM_PREFIX, SERVICE_PREFIX};
use parler_protocol::{
    Attention, Dispatch, HandoffRef, IMPORTED_KIND, OBSERVATION_KIND, Part, SIG_KIND,
    StoredMessage, TASK_KIND, TIPS_KIND, Task, TypedPart,
};

use crate::config::{AttentionSettings, RoomAttention};
use crate::render::Me;

/// What a message is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A turn that is mine to take.
    Turn,
    /// Work for a role that I serve.
    RoleWork,
    /// A direct message, or one that mentions me.
    Directed,
    /// The end of a task that I asked for.
    Outcome,
    /// Anything else that somebody said in the room.
    Ambient,
    /// Says only that something happened.
    Receipt,
}

/// Why a message cannot wake, whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// I wrote it.
    Own,
    /// Nobody proved who wrote it.
    Unsigned,
    /// The signature is not that of its author.
    Invalid,
    /// It was signed for another room.
    OtherRoom,
    /// The hub's loop guard holds it back.
    Held,
}

/// What to do about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Wake the host for it, if it was not woken for it before.
    Wake(Class),
    /// Leave it unread: it is shown with the next reading.
    Hold(Class),
    /// Acknowledge it silently: its room is muted.
    Drop,
    /// It wakes nobody; it is shown and acknowledged like any other.
    Never(Refusal),
}

impl Decision {
    /// The class, when the message is to wake.
    #[must_use]
    pub fn wakes(self) -> Option<Class> {
        match self {
            Decision::Wake(class) => Some(class),
            _ => None,
        }
    }
}

/// What the decision looks at beside the message.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a> {
    /// The agent.
    pub me: Me<'a>,
    /// Its attention, as set by its user.
    pub attention: &'a AttentionSettings,
    /// Roles whose dispatched work it takes.
    pub serves: &'a [String],
    /// Members of the room now; `None`: not known, taken for a larger room.
    pub members: Option<u32>,
    /// The hub's own id, whose notices never wake.
    pub hub_id: Option<&'a str>,
    /// Ids of tasks and turns that this agent asked for.
    pub asked: &'a [String],
    /// Everything that is said counts, as `--all-messages` asks for.
    pub all_messages: bool,
}

/// Decides.
#[must_use]
pub fn decide(message: &StoredMessage, receiver: &Receiver<'_>, held_by_guard: bool) -> Decision {
    if let Some(refusal) = refuse(message, receiver, held_by_guard) {
        return Decision::Never(refusal);
    }
    admit(classify(message, receiver), &message.room, receiver)
}

fn refuse(message: &StoredMessage, receiver: &Receiver<'_>, held: bool) -> Option<Refusal> {
    if message.from.id == receiver.me.id {
        return Some(Refusal::Own);
    }
    let (state, sig) = check(message);
    match state {
        SigState::Unsigned => Some(Refusal::Unsigned),
        SigState::Invalid => Some(Refusal::Invalid),
        SigState::Valid if !sig.is_some_and(|s| bound_to_room(message, &s, receiver.me.id)) => {
            Some(Refusal::OtherRoom)
        }
        SigState::Valid if held => Some(Refusal::Held),
        SigState::Valid => None,
    }
}

/// Puts a message into its class. A message with a handoff is classed by that alone.
#[must_use]
pub fn classify(message: &StoredMessage, receiver: &Receiver<'_>) -> Class {
    let me = &receiver.me;
    if receiver.hub_id.is_some_and(|hub| message.from.id == hub) {
        return Class::Receipt;
    }
    if let Some(handoff) = HandoffRef::find(&message.parts) {
        return if me.is_meant(&handoff) {
            Class::Turn
        } else {
            Class::Ambient
        };
    }
    if let Some(work) = Dispatch::find(&message.parts) {
        let serves = |role: &String| role.trim().eq_ignore_ascii_case(work.role.trim());
        return if receiver.serves.iter().any(serves) {
            Class::RoleWork
        } else if message.room.starts_with(SERVICE_PREFIX) {
            // Work for another role of a service is nothing that was said to anybody.
            Class::Receipt
        } else {
            Class::Ambient
        };
    }
    if let Some(class) = receipt(message, receiver) {
        return class;
    }
    if message.room.starts_with(DM_PREFIX) || mentions(message, me) {
        return Class::Directed;
    }
    Class::Ambient
}

/// The class of a message that only reports: every part is a receipt, or it is an arrival line.
fn receipt(message: &StoredMessage, receiver: &Receiver<'_>) -> Option<Class> {
    let mut parts = message.parts.iter().filter(|part| part.kind() != SIG_KIND);
    if let Some(task) = Task::find(&message.parts)
        && task.status.terminal()
    {
        let mine = |id: &Option<String>| id.as_ref().is_some_and(|id| receiver.asked.contains(id));
        if mine(&task.task) || mine(&message.reply_to) {
            return Some(Class::Outcome);
        }
    }
    let reports = |part: &Part| match part.kind() {
        TASK_KIND | OBSERVATION_KIND | TIPS_KIND | IMPORTED_KIND => true,
        // Beside a task update the text is its wording.
        "text" => Task::find(&message.parts).is_some(),
        _ => false,
    };
    (parts.all(reports) || is_arrival(message)).then_some(Class::Receipt)
}

/// Whether the message is the line by which clients say that its author came or went.
#[must_use]
pub fn is_arrival(message: &StoredMessage) -> bool {
    let mut said = message.parts.iter().filter(|part| part.kind() != SIG_KIND);
    let (Some(Part::Text { text }), None) = (said.next(), said.next()) else {
        return false;
    };
    let rest = text.trim().strip_prefix(message.from.name.trim());
    rest.is_some_and(|rest| matches!(rest.trim(), "joined the session" | "left the session"))
}

fn mentions(message: &StoredMessage, me: &Me<'_>) -> bool {
    let named = |mention: &String| {
        let mention = mention.trim();
        mention.to_lowercase() == me.name.trim().to_lowercase()
            || mention.eq_ignore_ascii_case(me.id)
    };
    message.mentions.iter().flatten().any(named)
}

/// Whether a class wakes in that room.
fn admit(class: Class, room: &str, receiver: &Receiver<'_>) -> Decision {
    use Class::{Ambient, Directed, Outcome, Receipt, RoleWork, Turn};

    if receiver.attention.room(room) == Some(RoomAttention::Muted) {
        return Decision::Drop;
    }
    let wakes = match (mode(room, receiver), class) {
        (_, Receipt) => false,
        (_, Turn | RoleWork) => true,
        (Attention::Focus, _) => false,
        (_, Directed | Outcome) => true,
        (Attention::Open, Ambient) => true,
        (Attention::Dnd, Ambient) => false,
    };
    if wakes {
        Decision::Wake(class)
    } else {
        Decision::Hold(class)
    }
}

/// The attention that holds in a room: what was set for the room, else for all rooms, else `open`
/// in a session that two agents share and `dnd` in a larger room.
#[must_use]
pub fn mode(room: &str, receiver: &Receiver<'_>) -> Attention {
    if receiver.attention.room(room) == Some(RoomAttention::Quiet) {
        return Attention::Dnd;
    }
    if receiver.all_messages {
        return Attention::Open;
    }
    receiver.attention.mode.unwrap_or_else(|| {
        if receiver.members.is_some_and(|members| members <= 2) {
            Attention::Open
        } else {
            Attention::Dnd
        }
    })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
