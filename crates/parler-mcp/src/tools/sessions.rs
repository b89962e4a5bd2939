//! Opening, joining and leaving a session: a room that agents work in together.

use std::time::Duration;

use parler_connector::config::new_name;
use parler_connector::render::CONTEXT_MARK;
use parler_connector::{Outgoing, Redeemed, safe};
use parler_protocol::{
    ClientFrame, Invite, Invited, Joined, MintWatch, RoomInfo, RoomKind, RoomOp, ServerFrame,
    clean, limits, links,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{CallContext, Effect, Reply, Tool};
use crate::args::{read, switch, whole, words};
use crate::backlog;
use crate::error::ToolError;
use crate::schema::plain;
use crate::state::Tools;
use crate::text;

/// Redeems of a code whose owner has to decide, when the caller does not want to wait.
const QUICK_TRIES: u32 = 3;
/// Pause between those.
const QUICK_PAUSE: Duration = Duration::from_millis(500);
/// Pause between the redeems of a caller who waits.
const PENDING_PAUSE: Duration = Duration::from_millis(750);

pub(super) const OPEN: Tool = Tool {
    name: "parler_open_session",
    title: "Open a session",
    about: "Opens a session for several agents, makes it the active one and answers the KEY that \
            the others join with. Example: {\"topic\": \"auth\", \"context\": \"We move login to \
            OAuth; see docs/auth.md\"}",
    effect: Effect::Adds,
    schema: plain::<OpenArgs>,
    run: |tools, args, _| Box::pin(async move { open(tools, read(OPEN.name, "{}", args)?).await }),
};

pub(super) const JOIN: Tool = Tool {
    name: "parler_join_session",
    title: "Join a session",
    about: "Joins a session by its key, makes it the active one and shows what was said so far. \
            Example: {\"key\": \"A3KELDJR@parler://127.0.0.1:7070\"}",
    effect: Effect::Adds,
    schema: plain::<JoinArgs>,
    run: |tools, args, cx| {
        Box::pin(async move {
            let example = "{\"key\": \"A3KELDJR@parler://127.0.0.1:7070\"}";
            join(tools, read(JOIN.name, example, args)?, cx).await
        })
    },
};

pub(super) const CLOSE: Tool = Tool {
    name: "parler_close_session",
    title: "Leave the session",
    about: "Leaves the active session and tells the others. The room and its messages stay.",
    effect: Effect::Adds,
    schema: plain::<CloseArgs>,
    run: |tools, _, _| Box::pin(close(tools)),
};

#[derive(Deserialize, JsonSchema)]
struct OpenArgs {
    /// What the others should know first.
    #[serde(default, deserialize_with = "words")]
    context: Option<String>,
    /// Name of the session.
    #[serde(default, deserialize_with = "words")]
    topic: Option<String>,
    /// Admit each agent yourself.
    #[serde(default, deserialize_with = "switch")]
    approval: Option<bool>,
    /// Life of the key in seconds (86400).
    #[serde(default, deserialize_with = "whole")]
    ttl_secs: Option<u64>,
    /// How many may join with it (50).
    #[serde(default, deserialize_with = "whole")]
    max_uses: Option<u64>,
    /// Your name there.
    #[serde(default, deserialize_with = "words")]
    name: Option<String>,
    /// Your role there.
    #[serde(default, deserialize_with = "words")]
    role: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct JoinArgs {
    /// CODE@HUB, a link, or a bare code.
    pub(crate) key: String,
    /// How much of what was said to show (recent).
    #[serde(default, deserialize_with = "backlog_word")]
    pub(crate) backlog: Option<Backlog>,
    /// Seconds to wait for the owner's approval (0, at most 45).
    #[serde(default, deserialize_with = "whole")]
    pub(crate) wait_secs: Option<u64>,
    /// Your name there.
    #[serde(default, deserialize_with = "words")]
    pub(crate) name: Option<String>,
    /// Your role there.
    #[serde(default, deserialize_with = "words")]
    pub(crate) role: Option<String>,
}

/// How much of the backlog a joiner sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backlog {
    /// The first message and the last ones.
    #[default]
    Recent,
    /// Everything.
    Full,
}

/// Anything but `full` means `recent`.
fn backlog_word<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Backlog>, D::Error> {
    Ok(words(d)?.map(|word| match word.trim() {
        "full" => Backlog::Full,
        _ => Backlog::Recent,
    }))
}

#[derive(Deserialize, JsonSchema)]
struct CloseArgs {}

async fn open(tools: &Tools, args: OpenArgs) -> Result<Reply, ToolError> {
    if args.approval == Some(true) {
        can_admit(tools).await?;
    }
    introduce(tools, args.name.as_deref(), args.role.as_deref())?;
    let ttl_secs = args
        .ttl_secs
        .map(|secs| secs.clamp(1, limits::MAX_TTL_SECS));
    let invite = Invite {
        kind: RoomKind::Channel,
        room: args.topic.as_deref().map(clean::name),
        ttl_secs,
        max_uses: args
            .max_uses
            .map(|uses| u32::try_from(uses).unwrap_or(u32::MAX).max(1)),
        require_approval: args.approval.unwrap_or(false),
    };
    let invited = tools
        .agent
        .call(|client| {
            let invite = invite.clone();
            async move { client.invite(invite).await }
        })
        .await?;
    tools.enter(&invited.room);
    let mut lines = opened(tools, &invited, args.approval == Some(true));
    if let Some(context) = &args.context
        && let Err(error) = say_context(tools, &invited.room, context).await
    {
        lines.push(format!(
            "The context could not be posted ({error}); post it with parler_send."
        ));
    }
    if let Some(watch) = watch_line(tools, &invited, ttl_secs).await {
        lines.push(watch);
    }
    lines.push(text::LISTEN.to_owned());
    Ok(Reply::text(lines.join("\n")))
}

fn opened(tools: &Tools, invited: &Invited, approval: bool) -> Vec<String> {
    let hub = tools.agent.hub_url();
    let key = links::portable_key(&invited.code, &hub);
    let mut lines = vec![
        format!(
            "Session '{}' is open and active. {}",
            invited.room,
            tools.introduction()
        ),
        format!("KEY: {key}"),
        format!("Others join with parler_join_session {{\"key\": \"{key}\"}} or, in a terminal,"),
        format!("  parler session join {key}"),
        "In Claude Code, an agent that joins at its start:".to_owned(),
        format!(
            "  claude mcp add parler --env PARLER_HUB={hub} --env PARLER_SESSION_KEY={key} -- parler mcp"
        ),
        format!("LINK: {}", invited.url),
    ];
    if approval {
        lines.push("Each agent that redeems the key waits until you admit it.".to_owned());
    }
    lines
}

/// Asks the hub whether it lets an owner admit joiners. A session that needs it on a hub without
/// it could never be joined.
async fn can_admit(tools: &Tools) -> Result<(), ToolError> {
    let frame = ClientFrame::JoinRequests(RoomOp { room: "_".into() });
    let asked = tools.agent.call(|client| {
        let frame = frame.clone();
        async move { client.request(frame).await }
    });
    match asked.await {
        Err(error) if error.unsupported() => Err(ToolError::refused(
            "this hub does not let you admit joiners yet; open the session without approval, and \
             give its key only to those who may join",
        )),
        // That it is not my room was to be expected.
        Err(error) if error.passes() => Err(error),
        _ => Ok(()),
    }
}

async fn say_context(tools: &Tools, room: &str, context: &str) -> Result<(), ToolError> {
    let seed = format!("{CONTEXT_MARK} (from {}):\n{context}", tools.agent.name());
    tools.send(Outgoing::text(room, seed), true).await.map(drop)
}

/// The line by which people can watch; nothing on a hub that does not do that.
async fn watch_line(tools: &Tools, invited: &Invited, ttl_secs: Option<u64>) -> Option<String> {
    let frame = ClientFrame::MintWatch(MintWatch {
        room: invited.room.clone(),
        ttl_secs: Some(ttl_secs.unwrap_or(limits::DEFAULT_INVITE_TTL_SECS)),
        full: None,
    });
    let minted = tools.agent.call(|client| {
        let frame = frame.clone();
        async move { client.request(frame).await }
    });
    match minted.await {
        Ok(ServerFrame::Watch(watch)) => Some(format!("WATCH: {}", safe::token(&watch.token))),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "no watch code");
            None
        }
    }
}

/// Joins a session by its key and shows what was said so far.
pub(crate) async fn join(
    tools: &Tools,
    args: JoinArgs,
    cx: &CallContext,
) -> Result<Reply, ToolError> {
    let code = code_of(tools, &args.key).await?;
    introduce(tools, args.name.as_deref(), args.role.as_deref())?;
    let wait = args
        .wait_secs
        .map(|secs| Duration::from_secs(secs).min(super::messages::MAX_WAIT));
    let before = tools
        .agent
        .call(|client| async move { client.rooms().await })
        .await?;
    let room = match redeem(tools, &code, wait, cx).await? {
        Redeemed::Joined(Joined {
            room,
            kind: RoomKind::Channel,
        }) => room,
        Redeemed::Joined(Joined { room, kind }) => {
            let room = safe::token(&room);
            return Ok(Reply::text(format!(
                "Joined room '{room}' ({kind}), which is no session: read it with parler_recv \
                 {{\"room\": \"{room}\"}}, talk with parler_send {{\"room\": \"{room}\", \"text\": …}}."
            )));
        }
        Redeemed::Pending { room } => {
            return Ok(Reply::text(format!(
                "Asked to join '{}': the request is sent, waiting for approval by the owner. \
                 Call parler_join_session with the same key again, or with \"wait_secs\": 45.",
                safe::token(&room)
            )));
        }
    };
    let backlog = backlog::read(tools, &room).await?;
    tools.enter(&room);
    arrive(tools, &room, &before).await;
    let members = super::target::members(tools, &room)
        .await
        .map_or(0, |members| members.len());
    let full = args.backlog.unwrap_or_default() == Backlog::Full;
    let shown = backlog.render(tools, full).await;
    let body = format!(
        "Joined session '{}', which is active now. {} {} in it.\n{}\n{}",
        safe::token(&room),
        tools.introduction(),
        text::count(members, "member"),
        shown.text,
        text::LISTEN
    );
    Ok(Reply {
        banner: shown.banner,
        body,
        batch: Some(backlog.into_batch()),
    })
}

/// Tells the others who came, unless it was a member already, by the rooms it was in before.
pub(crate) async fn arrive(tools: &Tools, room: &str, before: &[RoomInfo]) {
    if before.iter().any(|known| known.name == room) {
        return;
    }
    let arrived = format!("{} joined the session", tools.agent.name());
    if let Err(error) = tools.send(Outgoing::text(room, arrived), true).await {
        tracing::debug!(%error, "nobody was told of the arrival");
    }
}

/// The code of a key for this hub.
///
/// # Errors
/// The key is for another hub, or this one cannot be found.
pub(crate) async fn code_of(tools: &Tools, key: &str) -> Result<String, ToolError> {
    let key = links::split_key(key);
    if key.code.is_empty() {
        return Err(ToolError::refused(
            "the key is empty; it looks like CODE@HUB",
        ));
    }
    // Only a hub that is known can be compared: the local one may still have to be found.
    tools.agent.client().await?;
    let mine = tools.agent.hub_url();
    match &key.hub {
        Some(hub) if !links::same_hub(hub, &mine) => Err(ToolError::Refused(format!(
            "this key is for the hub {}, and this server talks to {mine}. Ask your user to set \
             PARLER_HUB={} for it and to start it again",
            safe::token(hub),
            safe::token(hub)
        ))),
        _ => Ok(links::tidy_code(&key.code)),
    }
}

/// Redeems a code; when the owner has to decide, asks again for a while.
async fn redeem(
    tools: &Tools,
    code: &str,
    wait: Option<Duration>,
    cx: &CallContext,
) -> Result<Redeemed, ToolError> {
    let deadline = cx.started + wait.unwrap_or_default();
    let mut tries = 1;
    loop {
        let redeemed = tools
            .agent
            .call(|client| async move { client.redeem(code).await })
            .await?;
        let more = match wait {
            Some(_) => Instant::now() + PENDING_PAUSE < deadline,
            None => tries < QUICK_TRIES,
        };
        if matches!(redeemed, Redeemed::Joined(_)) || !more {
            return Ok(redeemed);
        }
        tries += 1;
        tokio::select! {
            () = sleep(if wait.is_some() { PENDING_PAUSE } else { QUICK_PAUSE }) => {}
            () = cx.closing.cancelled() => return Err(ToolError::Closing),
        }
    }
}

/// Takes a name and a role that came with a call.
fn introduce(tools: &Tools, name: Option<&str>, role: Option<&str>) -> Result<(), ToolError> {
    let name = name.map(new_name).transpose().map_err(|error| {
        ToolError::Refused(format!(
            "{error}; a name is a word or two, for example webdev"
        ))
    })?;
    let role = role.map(clean::name).filter(|role| !role.is_empty());
    tools
        .agent
        .rename(name.as_deref(), role.as_deref())
        .map(drop)
}

async fn close(tools: &Tools) -> Result<Reply, ToolError> {
    let Some(room) = tools.session.active() else {
        return Ok(Reply::text("No session is active."));
    };
    let left = format!("{} left the session", tools.agent.name());
    let told = tools.send(Outgoing::text(&room, left), true).await;
    tools.leave();
    let room = safe::token(&room);
    Ok(Reply::text(match told {
        Ok(_) => format!(
            "Left session '{room}'. The room stays: parler_recv {{\"room\": \"{room}\"}} still reads it."
        ),
        Err(error) => {
            format!("Left session '{room}'; the others could not be told: {error}")
        }
    }))
}
