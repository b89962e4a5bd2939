//! Talking and listening.

use std::time::Duration;

use parler_connector::render::{self, Voice};
use parler_connector::safe::model::{BODY_CHARS, Frame};
use parler_connector::{Outgoing, Read, safe};
use parler_protocol::{Dispatch, Part, Pulled, StoredMessage, Target, TypedPart};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{CallContext, Effect, Reply, Tool, target};
use crate::args::{read, switch, whole, words};
use crate::error::ToolError;
use crate::inbox::Batch;
use crate::lead::Lead;
use crate::schema::plain;
use crate::state::Tools;

/// The longest wait of one call: below the 50 s that a call may be held.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(45);
/// How often a session that only looks on asks again while its own messages are unread.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How often a wait says that it goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Messages of one reading when the caller says nothing.
const DEFAULT_LIMIT: u32 = 30;
/// Messages of one reading at most.
const MAX_LIMIT: u32 = 1000;
/// Messages of others that come back with a send.
const WITH_A_SEND: u32 = 10;
/// Characters of one reading; what is beyond is read with the next call. A model's context is
/// small against a room.
const MAX_CHARS: usize = 100_000;
/// Mentions that are taken from one text.
const MAX_MENTIONS: usize = 16;

const SEND_EXAMPLE: &str = "{\"text\": \"@webdev the API is deployed\"}";

pub(super) const SEND: Tool = Tool {
    name: "parler_send",
    title: "Send a message",
    about: "Sends text to the active session, or to a room, an agent (to) or a service. @name \
            mentions wake that agent. Comes back with what others wrote meanwhile. Example: \
            {\"text\": \"@webdev the API is deployed\"}",
    effect: Effect::Adds,
    schema: plain::<SendArgs>,
    run: |tools, args, _| {
        Box::pin(async move { send(tools, read(SEND.name, SEND_EXAMPLE, args)?).await })
    },
};

pub(super) const RECV: Tool = Tool {
    name: "parler_recv",
    title: "Read messages",
    about: "Shows what is unread; with wait_secs waits for something when nothing is. since reads \
            again from a place in the log and changes nothing. Example: {\"wait_secs\": 45}",
    effect: Effect::Consumes,
    schema: plain::<RecvArgs>,
    run: |tools, args, cx| {
        Box::pin(async move { recv(tools, read(RECV.name, "{}", args)?, cx).await })
    },
};

#[derive(Deserialize, JsonSchema)]
struct SendArgs {
    /// What to say.
    text: String,
    /// Room, if not the active session.
    #[serde(default, deserialize_with = "words")]
    room: Option<String>,
    /// Agent: name or id.
    #[serde(default, deserialize_with = "words")]
    to: Option<String>,
    /// Service.
    #[serde(default, deserialize_with = "words")]
    service: Option<String>,
    /// Work for whoever serves this role; not with room, to.
    #[serde(default, deserialize_with = "words")]
    role: Option<String>,
    /// No answer to the turn that you hold.
    #[serde(default, deserialize_with = "switch")]
    keep: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
struct RecvArgs {
    /// Room, if not the active session.
    #[serde(default, deserialize_with = "words")]
    room: Option<String>,
    /// Read again what came after this seq.
    #[serde(default, deserialize_with = "whole")]
    since: Option<u64>,
    /// Messages at most (30).
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u64>,
    /// Seconds to wait (at most 45).
    #[serde(default, deserialize_with = "whole")]
    wait_secs: Option<u64>,
}

async fn send(tools: &Tools, args: SendArgs) -> Result<Reply, ToolError> {
    if args.text.trim().is_empty() {
        return Err(ToolError::refused("the text is empty; nothing was sent"));
    }
    let (room, to, service) = (
        args.room.as_deref(),
        args.to.as_deref(),
        args.service.as_deref(),
    );
    if args.role.is_some() && (room.is_some() || to.is_some()) {
        return Err(ToolError::refused(
            "role goes to the service of that name, or to another by `service`; leave out room and to",
        ));
    }
    let service = service.or(args.role.as_deref());
    let target = target::resolve(tools, room, to, service).await?;
    let mut parts = vec![Part::text(&args.text)];
    if let Some(role) = args.role {
        parts.push(Dispatch { role }.to_part());
    }
    let mut message = Outgoing::new(target, parts);
    message.mentions = mentions(&args.text);
    let sent = tools.send(message, args.keep.unwrap_or(false)).await?;
    let head = format!(
        "Sent to {} (seq {}).",
        tools.call_room(&sent.room),
        sent.seq
    );
    Ok(with_news(tools, &sent.room, head).await)
}

/// The names that a text addresses with `@`.
fn mentions(text: &str) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || "(,;".contains(c)) {
        let Some(rest) = word.strip_prefix('@') else {
            continue;
        };
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || "_-.".contains(*c))
            .collect();
        let name = name.trim_end_matches(['.', '-']).to_owned();
        if !name.is_empty() && found.len() < MAX_MENTIONS && !found.contains(&name) {
            found.push(name);
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Adds what others wrote meanwhile. That it could not be read is no error of the send.
pub(super) async fn with_news(tools: &Tools, room: &str, head: String) -> Reply {
    let batch = match tools.unread(room, WITH_A_SEND).await {
        Ok(batch) if batch.by_others(&tools.agent.id()).next().is_some() => batch,
        Ok(_) => return Reply::text(head),
        Err(error) => {
            tracing::debug!(%error, "sent, and nothing could be read");
            return Reply::text(head);
        }
    };
    let mut reply = show(tools, batch, WITH_A_SEND).await;
    reply.body = format!("{head} Meanwhile:\n{}", reply.body);
    reply
}

async fn recv(tools: &Tools, args: RecvArgs, cx: &CallContext) -> Result<Reply, ToolError> {
    let room = tools.room(args.room.as_deref()).await?;
    let asked = args
        .limit
        .map_or(DEFAULT_LIMIT, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let limit = asked.clamp(1, MAX_LIMIT);
    if let Some(since) = args.since {
        return again(
            tools,
            &room,
            i64::try_from(since).unwrap_or(i64::MAX),
            limit,
        )
        .await;
    }
    let wait = Duration::from_secs(args.wait_secs.unwrap_or(0)).min(MAX_WAIT);
    // A turn is there until it is taken or over, wherever the cursor stands: no wait for one.
    let frame = Frame::new();
    let lead = tools.lead(&frame).await.unwrap_or_default();
    let wait = if lead.news { Duration::ZERO } else { wait };
    match listen(tools, &room, limit, wait, cx).await? {
        Some(batch) if lead.news => Ok(show_with(tools, batch, limit, (frame, Some(lead))).await),
        Some(batch) => Ok(show(tools, batch, limit).await),
        None => {
            let nothing = format!("(no new messages in '{}')", safe::token(&room));
            let lead = match lead.text {
                Some(text) => Some(text),
                None if wait.is_zero() => None,
                None => tools.lead(&frame).await.and_then(|lead| lead.text),
            };
            Ok(Reply {
                body: match &lead {
                    Some(_) => format!("{}\n{nothing}", frame.notice()),
                    None => nothing,
                },
                banner: lead,
                batch: None,
            })
        }
    }
}

/// Reads what is unread by others; when there is nothing, waits for it.
async fn listen(
    tools: &Tools,
    room: &str,
    limit: u32,
    wait: Duration,
    cx: &CallContext,
) -> Result<Option<Batch>, ToolError> {
    let deadline = cx.started + wait;
    let mut passed = 0;
    loop {
        let mut batch = tools.unread(room, limit).await?;
        let others = batch.by_others(&tools.agent.id()).next().is_some();
        let looks_on = batch.last().is_some() && tools.consumer.other(room).is_some();
        if others || (looks_on && read_past_own(tools, &mut batch, limit).await?) {
            return Ok(Some(batch));
        }
        if !looks_on && batch.end() > passed && batch.last().is_some() {
            // Only what this agent wrote itself: nothing to show, and nothing to wait behind.
            passed = batch.end();
            batch.consume().await;
            continue;
        }
        drop(batch);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || cx.closing.is_cancelled() {
            return Ok(None);
        }
        if looks_on {
            // A wait for what is unread would end at once, every time.
            if !pauses(tools, left.min(LOOK_AGAIN), cx).await {
                return Ok(None);
            }
        } else if !arrives(tools, room, left, wait, cx).await? {
            return Ok(None);
        }
    }
}

/// Reads on from the end of a batch in which there are only own messages, which another session
/// will mark as read; whether something by others is there.
async fn read_past_own(tools: &Tools, batch: &mut Batch, limit: u32) -> Result<bool, ToolError> {
    let client = tools.agent.client().await?;
    let me = tools.agent.id();
    while let Some(seq) = batch.last() {
        let read = Read::Since { seq, limit };
        batch.pulled = client.pull(&batch.pulled.room, read).await?;
        if batch.by_others(&me).next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits that long as a call that waits does; whether to go on.
async fn pauses(tools: &Tools, pause: Duration, cx: &CallContext) -> bool {
    let _wait = tools.activity.wait();
    tokio::select! {
        () = sleep(pause) => true,
        () = cx.closing.cancelled() => false,
    }
}

/// Whether something arrives before the time is up. Consumes nothing, so another call may read it
/// first.
async fn arrives(
    tools: &Tools,
    room: &str,
    left: Duration,
    wait: Duration,
    cx: &CallContext,
) -> Result<bool, ToolError> {
    let _wait = tools.activity.wait();
    let client = tools.agent.client().await?;
    let progress = async {
        let Some(progress) = &cx.progress else {
            return std::future::pending::<()>().await;
        };
        let mut beat = interval(PROGRESS_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            progress
                .tell(cx.started.elapsed().as_secs_f64(), wait.as_secs_f64())
                .await;
        }
    };
    tokio::select! {
        arrived = client.wait(room, 1, left) => Ok(!arrived?.messages.is_empty()),
        () = cx.closing.cancelled() => Ok(false),
        () = progress => Ok(false),
    }
}

/// The messages of a batch by others, as an answer that consumes them.
async fn show(tools: &Tools, batch: Batch, limit: u32) -> Reply {
    let frame = Frame::new();
    let lead = tools.lead(&frame).await;
    show_with(tools, batch, limit, (frame, lead)).await
}

/// The same behind what the ledger leads with; without a ledger the messages themselves do.
async fn show_with(
    tools: &Tools,
    mut batch: Batch,
    limit: u32,
    (frame, lead): (Frame, Option<Lead>),
) -> Reply {
    let me = tools.agent.id();
    let messages: Vec<_> = batch.by_others(&me).cloned().collect();
    let full = u32::try_from(batch.pulled.messages.len()).unwrap_or(u32::MAX) >= limit;
    let reading = Reading::of(tools, &messages, Some(BODY_CHARS), &frame).await;
    if let Some(last) = reading.cut_after {
        batch.end_at(last);
    }
    let cut = reading.cut_after.is_some();
    let mut body = format!("{}\n— cursor at {} —", reading.body, batch.end());
    if full || cut {
        body.push_str("\nMore is waiting: call parler_recv again.");
    }
    if let Some(holder) = tools.consumer.other(&batch.pulled.room) {
        body.push_str(&format!(
            "\nOnly shown: {holder} reads this room as the same agent; nothing was marked as read."
        ));
    }
    Reply {
        banner: match lead {
            Some(lead) => lead.text,
            None => reading.banner,
        },
        body,
        batch: Some(batch),
    }
}

/// Reads again. Nothing is consumed, and no message is cut.
async fn again(tools: &Tools, room: &str, seq: i64, limit: u32) -> Result<Reply, ToolError> {
    let read = Read::Since { seq, limit };
    let pulled = tools
        .agent
        .call(|client| async move { client.pull(room, read).await })
        .await?;
    if pulled.messages.is_empty() {
        let room = safe::token(room);
        return Ok(Reply::text(format!("(nothing in '{room}' after {seq})")));
    }
    let reading = Reading::of(tools, &pulled.messages, None, &Frame::new()).await;
    let banner = match reading.banner {
        Some(_) => unread_banner(tools, room, &pulled).await,
        None => None,
    };
    let end = reading.cut_after.unwrap_or(pulled.cursor);
    let body = format!(
        "{}\n— read again, up to {end}; what is unread stays unread —",
        reading.body
    );
    Ok(Reply {
        banner,
        body,
        batch: None,
    })
}

/// The banner for those messages of a second reading that were not read yet.
async fn unread_banner(tools: &Tools, room: &str, pulled: &Pulled) -> Option<String> {
    let unread = tools
        .agent
        .call(|client| async move { client.pull(room, Read::Unread { limit: 1 }).await })
        .await
        .ok()?;
    let first = unread.messages.first()?.seq;
    let unread: Vec<_> = pulled
        .messages
        .iter()
        .filter(|m| m.seq >= first)
        .cloned()
        .collect();
    Reading::of(tools, &unread, None, &Frame::new())
        .await
        .banner
}

/// Messages as text, all in one frame.
struct Reading {
    banner: Option<String>,
    body: String,
    /// The last message that is in it, when it has not all of them.
    cut_after: Option<i64>,
}

impl Reading {
    async fn of(
        tools: &Tools,
        messages: &[StoredMessage],
        body_chars: Option<usize>,
        frame: &Frame,
    ) -> Self {
        let voice = Voice::Model {
            frame,
            body_chars: body_chars.filter(|_| !tools.verbose),
        };
        let mut lines = vec![frame.notice()];
        let mut chars = 0;
        for message in messages {
            let line = render::message(message, &voice);
            chars += line.chars().count();
            // The first one always goes: a message longer than a reading has to be read somehow.
            if chars > MAX_CHARS && lines.len() > 1 {
                break;
            }
            lines.push(line);
        }
        let shown = &messages[..lines.len() - 1];
        let all = shown.len() == messages.len();
        Reading {
            banner: tools.banner(shown, &voice).await,
            body: lines.join("\n"),
            cut_after: shown.last().filter(|_| !all).map(|message| message.seq),
        }
    }
}

/// The room that a target is, before anything was sent to it; `None` when only the hub can say.
pub(super) fn room_of(target: &Target) -> Option<&str> {
    match target {
        Target::Room { room } => Some(room),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_behind_an_at_sign_are_mentioned_and_addresses_are_not() {
        let found = |text: &str| mentions(text).unwrap_or_default();
        assert_eq!(
            found("@webdev, and (@plan-ner) ship it"),
            ["webdev", "plan-ner"]
        );
        assert_eq!(found("hi @webdev. @webdev!"), ["webdev"]);
        assert_eq!(found("me@example.com @ @. x@y"), Vec::<String>::new());
        assert_eq!(mentions(&"@a".repeat(5)).unwrap(), ["a"]);
        let many: String = (0..40).map(|n| format!("@n{n} ")).collect();
        assert_eq!(found(&many).len(), MAX_MENTIONS);
    }
}
