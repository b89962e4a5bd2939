//! Passing the turn: to somebody who is there, and with an honest word about them.

use parler_connector::addressee::{Audience, Unclear, audience};
use parler_connector::safe::model::label;
use parler_connector::{Outgoing, safe};
use parler_protocol::{BlobId, HandoffRef, RosterEntry, Sent, Target, Turn, TypedPart, clean};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Reply, Tool, messages, target};
use crate::args::{read, switch, words};
use crate::error::ToolError;
use crate::schema::plain;
use crate::state::Tools;
use crate::text;

/// Members that an error or an answer lists at most.
const MAX_LISTED: usize = 12;

/// Characters of the hub's word on why nothing happens.
const MAX_STALL_CHARS: usize = 300;

const EXAMPLE: &str = "{\"for\": \"webdev\", \"next\": \"review the diff in branch oauth\"}";

pub(super) const HANDOFF: Tool = Tool {
    name: "parler_handoff",
    title: "Hand off the turn",
    about: "Hands the turn to a member by name or role, or to anyone when for is left out, with \
            what to do next. Says who that is and whether they are there. Example: \
            {\"for\": \"webdev\", \"next\": \"review the diff in branch oauth\", \
            \"summary\": \"login works\"}",
    effect: Effect::Adds,
    schema: plain::<HandoffArgs>,
    run: |tools, args, _| {
        Box::pin(async move { handoff(tools, read(HANDOFF.name, EXAMPLE, args)?).await })
    },
};

#[derive(Deserialize, JsonSchema)]
struct HandoffArgs {
    /// What the next agent should do.
    next: String,
    /// State so far.
    #[serde(default, deserialize_with = "words")]
    summary: Option<String>,
    /// Name, role or id; absent: anyone.
    #[serde(default, rename = "for", deserialize_with = "words")]
    addressee: Option<String>,
    /// Blob id of a bundle.
    #[serde(default, deserialize_with = "words")]
    bundle: Option<String>,
    /// Room, if not the active session.
    #[serde(default, deserialize_with = "words")]
    room: Option<String>,
    /// Agent: name or id.
    #[serde(default, deserialize_with = "words")]
    to: Option<String>,
    /// Service.
    #[serde(default, deserialize_with = "words")]
    service: Option<String>,
    /// Ask for help and keep the turn that you hold.
    #[serde(default, deserialize_with = "switch")]
    keep: Option<bool>,
}

async fn handoff(tools: &Tools, args: HandoffArgs) -> Result<Reply, ToolError> {
    if args.next.trim().is_empty() {
        return Err(ToolError::refused(
            "next is empty: say what the next agent should do; nothing was handed off",
        ));
    }
    if args
        .bundle
        .as_deref()
        .is_some_and(|blob| BlobId::parse(blob).is_none())
    {
        return Err(ToolError::refused(
            "bundle must be a blob id: 64 hexadecimal digits",
        ));
    }
    let addressee = args.addressee.map(|who| who.trim().to_owned());
    let target = target::resolve(
        tools,
        args.room.as_deref(),
        args.to.as_deref(),
        args.service.as_deref(),
    )
    .await?;
    // Who may take it is asked before it is sent: a turn that nobody can take helps nobody.
    let (to, able) = match messages::room_of(&target) {
        Some(room) => {
            let audience = may_take(tools, room, addressee.as_deref()).await?;
            (audience.to, Some(audience.members))
        }
        None => (addressee, None),
    };
    let handoff = HandoffRef {
        next: args.next,
        summary: args.summary,
        to: to.clone(),
        bundle: args.bundle,
    };
    let keep = args.keep.unwrap_or(false);
    let sent = send(tools, target, &handoff, to.as_deref(), keep).await?;
    let head = told(tools, &sent, to.as_deref(), able.as_deref());
    Ok(messages::with_news(tools, &sent.room, head).await)
}

async fn send(
    tools: &Tools,
    target: Target,
    handoff: &HandoffRef,
    addressee: Option<&str>,
    keep: bool,
) -> Result<Sent, ToolError> {
    let mut message = Outgoing::new(target, vec![handoff.to_part()]);
    message.mentions = addressee.map(|who| vec![who.to_owned()]);
    let sent = tools.send(message, keep).await?;
    tools.asked(&sent.id);
    Ok(sent)
}

/// Who of a room may take the turn.
///
/// # Errors
/// An addressee was named and no member but the caller is meant by that, or several by one name.
async fn may_take(
    tools: &Tools,
    room: &str,
    addressee: Option<&str>,
) -> Result<Audience, ToolError> {
    let me = tools.agent.id();
    let members = target::members(tools, room).await?;
    let why = match audience(addressee, &members, &me) {
        Ok(audience) => return Ok(audience),
        Err(why) => why,
    };
    let to = addressee.unwrap_or_default();
    let nobody = || {
        let (to, room) = (safe::name(to), safe::token(room));
        format!("nobody else in '{room}' has the name or role '{to}'")
    };
    let what = match &why {
        Unclear::Nobody(_) => nobody(),
        Unclear::Myself => format!("{}; that is you", nobody()),
        other => other.say(to, label),
    };
    let others: Vec<_> = members.into_iter().filter(|m| m.id != me).collect();
    let there = match others.len() {
        0 => {
            "Nobody else is in the room yet; share its key and wait for somebody to join".to_owned()
        }
        _ => format!("There: {}", list(&others)),
    };
    Err(ToolError::Refused(format!(
        "{what}. Nothing was handed off. {there}. To hand off to anyone, leave out for"
    )))
}

/// What is known of those who may take the turn, and no more.
fn told(
    tools: &Tools,
    sent: &Sent,
    addressee: Option<&str>,
    audience: Option<&[RosterEntry]>,
) -> String {
    let to = addressee.map_or("anyone".to_owned(), safe::name);
    let room = tools.call_room(&sent.room);
    let mut told = format!(
        "Handed off to {to} in {room} (seq {}, message {}).",
        sent.seq,
        safe::token(&sent.id)
    );
    match audience {
        Some([]) => told.push_str(" Nobody else is in the room yet: who joins will see it."),
        Some(members) => {
            told.push_str(&format!(" Who can take it: {}.", list(members)));
            if sent.turn.is_none() {
                told.push_str(" Whether they act is not known yet; their answer will show.");
            }
        }
        None if sent.turn.is_none() => {
            told.push_str(" Whether somebody acts is not known yet; an answer will show.");
        }
        None => {}
    }
    if let Some(turn) = &sent.turn {
        told.push_str(&there(turn));
    }
    told
}

/// What the ledger says at the moment of sending: whether anybody is there to act.
fn there(turn: &Turn) -> String {
    let audience = turn.audience.unwrap_or_default();
    let (eligible, online, listening) = (audience.eligible, audience.online, audience.listening);
    let mut said = match (eligible, online, listening) {
        (0, _, _) => " Nobody in the room can take it yet.".to_owned(),
        (_, 0, _) => " Nobody who can take it is online: it waits for them.".to_owned(),
        (_, _, 0) => {
            " They are online, and nothing there listens: they see it when they look.".to_owned()
        }
        _ => format!(" {listening} of {eligible} who can take it listen and will be woken."),
    };
    if let Some(stalled) = turn.stalled.as_deref() {
        let stalled = clean::name(stalled);
        said.push_str(&format!(
            " The hub says: {}.",
            safe::cut(&stalled, MAX_STALL_CHARS).0
        ));
    }
    said.push_str(&format!(
        " To wait for its end: parler_turn {{\"action\": \"wait\", \"id\": \"{}\"}}.",
        safe::token(&turn.message)
    ));
    said
}

fn list(members: &[RosterEntry]) -> String {
    let now = text::now_ms();
    let mut listed: Vec<_> = members
        .iter()
        .take(MAX_LISTED)
        .map(|member| text::present(member, now))
        .collect();
    if members.len() > MAX_LISTED {
        listed.push(format!("and {} more", members.len() - MAX_LISTED));
    }
    listed.join("; ")
}
