//! `pull`: reads a room, now or when something is there.

use std::time::Duration;

use parler_protocol::{Pull, RoomName, Seq, limits};
use parler_store::{Page, ReadFrom};
use tokio::time::{Instant, timeout_at};

use super::{Caller, cap_field};
use crate::conn::Reply;
use crate::error::OpError;
use crate::live::What;
use crate::now_ms;

/// Reads a room. With `since` the cursor stays; with `ack` it moves there first and not again;
/// with neither it moves to what was returned.
pub async fn pull(caller: Caller, op: Pull) -> Reply {
    match run(&caller, &op).await {
        Ok(reply) => reply,
        Err(error) => error.into(),
    }
}

async fn run(caller: &Caller, op: &Pull) -> Result<Reply, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let limit = op
        .limit
        .unwrap_or(limits::DEFAULT_PULL_LIMIT)
        .min(limits::MAX_PULL_LIMIT);
    let from = match (op.since, op.ack) {
        (Some(since), _) => ReadFrom::Since(Seq(since)),
        (None, ack) => ReadFrom::Cursor { ack: ack.map(Seq) },
    };
    let wait = Duration::from_secs(op.wait_secs.unwrap_or(0).min(limits::MAX_WAIT_SECS));
    let may_park = op.since.is_none() && !wait.is_zero();
    let deadline = Instant::now() + wait;

    let page = read(caller, &room, from, limit).await?;
    confirm(caller, &room, op, &page).await?;
    if !page.entries.is_empty() || !may_park {
        return finish(caller, &room, op, page).await;
    }
    let page = park(caller, &room, from, limit, deadline)
        .await?
        .unwrap_or(page);
    finish(caller, &room, op, page).await
}

/// Waits for something to read; `None` at the deadline or when the hub stops.
async fn park(
    caller: &Caller,
    room: &RoomName,
    from: ReadFrom,
    limit: u32,
    deadline: Instant,
) -> Result<Option<Page>, OpError> {
    let mut stopping = caller.stopping.clone();
    let mut parked = caller.state.waiters().park(room);
    let _listens = caller
        .state
        .live()
        .enter(&caller.agent.id, What::ParkedPull);
    loop {
        // Read after parking: what was appended in between is found here or wakes us.
        let page = read(caller, room, from, limit).await?;
        if !page.entries.is_empty() {
            return Ok(Some(page));
        }
        tokio::select! {
            woken = timeout_at(deadline, parked.grew()) => {
                if woken.is_err() {
                    return Ok(None);
                }
            }
            _ = stopping.wait_for(|stopping| *stopping) => return Ok(None),
        }
    }
}

async fn read(
    caller: &Caller,
    room: &RoomName,
    from: ReadFrom,
    limit: u32,
) -> Result<Page, OpError> {
    let page = caller
        .state
        .store()
        .read(room, &caller.agent.id, from, limit)
        .await?;
    page.ok_or_else(|| OpError::not_member(room.as_str()))
}

/// Stores what the client confirmed: the read began there when the confirmation counts.
async fn confirm(caller: &Caller, room: &RoomName, op: &Pull, page: &Page) -> Result<(), OpError> {
    if op.since.is_none() && op.ack.is_some() && page.floor > page.cursor {
        caller
            .state
            .store()
            .advance(room, &caller.agent.id, page.floor, now_ms())
            .await?;
    }
    Ok(())
}

async fn finish(caller: &Caller, room: &RoomName, op: &Pull, page: Page) -> Result<Reply, OpError> {
    let cursor = page.entries.last().map_or(page.floor, |entry| entry.seq);
    if op.since.is_none() && op.ack.is_none() && !page.entries.is_empty() {
        caller
            .state
            .store()
            .advance(room, &caller.agent.id, cursor, now_ms())
            .await?;
    }
    Ok(pulled(room, &page, cursor))
}

fn pulled(room: &RoomName, page: &Page, cursor: Seq) -> Reply {
    Reply::messages("pulled", room, &page.entries, Some(cursor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::{AgentId, ServerFrame};
    use parler_store::LogEntry;

    #[test]
    fn the_reply_is_the_frame_that_the_contract_names() {
        let json =
            r#"{"seq":3,"id":"m","room":"r","from":{"id":"U","name":"n"},"parts":[],"ts":1}"#;
        let entry = LogEntry {
            seq: Seq(3),
            id: "m".into(),
            room: RoomName::new("r"),
            author: AgentId::trusted("U"),
            json: json.into(),
        };
        let page = Page {
            entries: vec![entry.clone(), entry],
            floor: Seq(0),
            cursor: Seq(0),
        };
        let reply = pulled(&RoomName::new("r \"x\""), &page, Seq(3));
        let Reply::Frame(reply) = reply else {
            panic!("{reply:?}");
        };
        match serde_json::from_str(&reply).unwrap() {
            ServerFrame::Pulled(p) => {
                assert_eq!(
                    (p.room.as_str(), p.messages.len(), p.cursor),
                    ("r \"x\"", 2, 3)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
