//! Invites: minting them, and redeeming them step by step.

use parler_protocol::{AgentId, RoomName};
use parler_store::{
    CodeHash, Event, InviteOutcome, JoinRequestRow, NewInvite, RedeemOutcome, StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::agents;
use crate::error::Failure;
use crate::gates;
use crate::mirror::Room;
use crate::rooms;
use crate::writer::Tx;

/// Stores an invite, and opens its room if need be.
pub(crate) fn invite(tx: &mut Tx<'_>, invite: &NewInvite) -> Result<InviteOutcome, Failure> {
    // Refusals first, before anything is written.
    let caller = tx.mirror.agent(tx.conn, &invite.agent)?;
    let (name, found) = target(tx, invite, caller)?;
    match (found, caller) {
        (Some(room), _) if !is_member(tx, room.id, caller)? => {
            return Ok(InviteOutcome::NotMember);
        }
        (None, Some(id)) if rooms::owns_enough(tx.conn, id, invite.max_owned_rooms)? => {
            return Ok(InviteOutcome::TooManyRooms);
        }
        (None, None) if invite.max_owned_rooms == 0 => return Ok(InviteOutcome::TooManyRooms),
        _ => {}
    }
    refuse_known_code(tx.conn, invite)?;

    let caller = agents::ensure(tx, &invite.agent, invite.now)?;
    let room = match found {
        Some(room) => room,
        None => {
            let room = rooms::create(tx, &name, invite.kind, invite.now)?;
            rooms::add_member(tx, &name, room, (&invite.agent, caller), invite.now)?;
            room
        }
    };
    let after = Room {
        owner: room.owner.or(Some(caller)),
        gated: room.gated || invite.gated,
        ..room
    };
    if (after.owner, after.gated) != (room.owner, room.gated) {
        rooms::update(tx, &name, after)?;
    }
    let gated = invite.gated || (room.gated && after.owner != Some(caller));
    store(tx.conn, invite, room.id, caller, gated)?;
    Ok(InviteOutcome::Invited { room: name, gated })
}

/// The room that an invite is for, and what is known of it.
fn target(
    tx: &mut Tx<'_>,
    invite: &NewInvite,
    caller: Option<i64>,
) -> Result<(RoomName, Option<Room>), Failure> {
    if let Some(verbatim) = &invite.verbatim
        && let Some(room) = tx.mirror.room(tx.conn, verbatim)?
        && room.kind == invite.kind
        && is_member(tx, room.id, caller)?
    {
        return Ok((verbatim.clone(), Some(room)));
    }
    let room = tx.mirror.room(tx.conn, &invite.room)?;
    Ok((invite.room.clone(), room))
}

fn is_member(tx: &mut Tx<'_>, room: i64, agent: Option<i64>) -> rusqlite::Result<bool> {
    match agent {
        Some(agent) => Ok(tx.mirror.member(tx.conn, room, agent)?.is_some()),
        None => Ok(false),
    }
}

/// A code or id that exists already must not fail on its constraint: that would undo the batch.
fn refuse_known_code(conn: &Connection, invite: &NewInvite) -> Result<(), Failure> {
    const KNOWN: &str = "SELECT EXISTS (SELECT 1 FROM invites WHERE code_hash = ?1)
        OR EXISTS (SELECT 1 FROM invites WHERE id = ?2)";
    let known: bool = conn
        .prepare_cached(KNOWN)?
        .query_row(params![invite.code, invite.id], |row| row.get(0))?;
    if known {
        let text = "the invite's code or id is taken; mint another one".to_owned();
        return Err(Failure::Refused(StoreError::Unavailable(text)));
    }
    Ok(())
}

fn store(
    conn: &Connection,
    invite: &NewInvite,
    room: i64,
    caller: i64,
    gated: bool,
) -> rusqlite::Result<()> {
    const INSERT: &str = "INSERT INTO invites
            (code_hash, id, room_id, minted_by, gated, expires_at, max_uses, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    conn.prepare_cached(INSERT)?.execute(params![
        invite.code,
        invite.id,
        room,
        caller,
        gated,
        invite.expires_at,
        invite.max_uses,
        invite.now,
    ])?;
    Ok(())
}

/// An invite as a redeem needs it.
struct Invite {
    room: RoomName,
    gated: bool,
    expires_at: i64,
    spent: bool,
}

/// Redeems a code: the steps are the protocol's, in its order, except that a requester who waits
/// already is told so even after the code's end.
pub(crate) fn redeem(
    tx: &mut Tx<'_>,
    code: &CodeHash,
    agent: &AgentId,
    now: i64,
) -> Result<RedeemOutcome, Failure> {
    let Some(invite) = find(tx.conn, code)? else {
        return Ok(RedeemOutcome::Unknown);
    };
    let name = invite.room;
    let Some(room) = tx.mirror.room(tx.conn, &name)? else {
        return Ok(RedeemOutcome::Unknown);
    };
    let caller = tx.mirror.agent(tx.conn, agent)?;
    if is_member(tx, room.id, caller)? {
        return Ok(RedeemOutcome::Joined {
            room: name,
            kind: room.kind,
        });
    }
    if let Some(caller) = caller
        && gates::is_banned(tx.conn, room.id, caller)?
    {
        return Ok(RedeemOutcome::Denied);
    }
    let request = match caller {
        Some(caller) if invite.gated => request(tx.conn, room.id, caller)?,
        _ => None,
    };
    match request {
        Some(Request::Pending) => {
            return Ok(RedeemOutcome::Pending {
                room: name,
                new: false,
            });
        }
        _ if now > invite.expires_at => return Ok(RedeemOutcome::Expired),
        Some(Request::Denied) => return Ok(RedeemOutcome::Denied),
        None if invite.spent => return Ok(RedeemOutcome::UsedUp),
        None => {}
    }

    let caller = agents::ensure(tx, agent, now)?;
    spend(tx.conn, code)?;
    if invite.gated {
        ask(tx.conn, room.id, caller, now)?;
        tx.events.push(Event::Asked {
            room: name.clone(),
            agent: agent.clone(),
        });
        tx.events.extend(requested(tx.conn, &name, room, caller)?);
        return Ok(RedeemOutcome::Pending {
            room: name,
            new: true,
        });
    }
    rooms::add_member(tx, &name, room, (agent, caller), now)?;
    Ok(RedeemOutcome::Joined {
        room: name,
        kind: room.kind,
    })
}

fn find(conn: &Connection, code: &CodeHash) -> rusqlite::Result<Option<Invite>> {
    const FIND: &str = "SELECT r.name, i.gated, i.expires_at, i.uses >= i.max_uses
        FROM invites i JOIN rooms r ON r.id = i.room_id WHERE i.code_hash = ?1";
    conn.prepare_cached(FIND)?
        .query_row([code], |row| {
            Ok(Invite {
                room: RoomName::new(row.get_ref(0)?.as_str()?),
                gated: row.get(1)?,
                expires_at: row.get(2)?,
                spent: row.get(3)?,
            })
        })
        .optional()
}

/// Where an agent's wish to join stands.
enum Request {
    Pending,
    Denied,
}

fn request(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<Option<Request>> {
    const FIND: &str =
        "SELECT state = 'pending' FROM join_requests WHERE room_id = ?1 AND agent_id = ?2";
    let pending: Option<bool> = conn
        .prepare_cached(FIND)?
        .query_row([room, agent], |row| row.get(0))
        .optional()?;
    Ok(pending.map(|pending| {
        if pending {
            Request::Pending
        } else {
            Request::Denied
        }
    }))
}

fn spend(conn: &Connection, code: &CodeHash) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE invites SET uses = uses + 1 WHERE code_hash = ?1")?
        .execute([code])?;
    Ok(())
}

fn ask(conn: &Connection, room: i64, agent: i64, now: i64) -> rusqlite::Result<()> {
    // Requests of one millisecond, or after the clock went back, keep the order in which they came.
    const INSERT: &str = "INSERT INTO join_requests (room_id, agent_id, state, requested_at)
        SELECT ?1, ?2, 'pending', max(?3, coalesce(max(requested_at) + 1, ?3))
        FROM join_requests WHERE room_id = ?1";
    conn.prepare_cached(INSERT)?.execute([room, agent, now])?;
    Ok(())
}

/// What the owner is told of a request that was just stored.
fn requested(
    conn: &Connection,
    name: &RoomName,
    room: Room,
    agent: i64,
) -> rusqlite::Result<Option<Event>> {
    const FIND: &str = "SELECT o.agent, a.agent, a.name, a.role, q.requested_at
        FROM join_requests q JOIN agents a ON a.id = q.agent_id JOIN agents o ON o.id = ?3
        WHERE q.room_id = ?1 AND q.agent_id = ?2";
    conn.prepare_cached(FIND)?
        .query_row(params![room.id, agent, room.owner], |row| {
            Ok(Event::Requested {
                room: name.clone(),
                owner: AgentId::trusted(row.get_ref(0)?.as_str()?),
                request: JoinRequestRow {
                    agent: AgentId::trusted(row.get_ref(1)?.as_str()?),
                    name: row.get(2)?,
                    role: row.get(3)?,
                    requested_at: row.get(4)?,
                },
            })
        })
        .optional()
}

#[cfg(test)]
mod tests {
    //! Cases that the conformance suite does not tell: requests that were put there by hand.

    use std::sync::Arc;

    use parler_protocol::RoomKind;
    use parler_store::Store;

    use super::*;
    use crate::{Durability, OpenOptions, SqliteStore};

    const GATED: CodeHash = [1; 32];
    const OPEN: CodeHash = [2; 32];

    /// A room with a gated and an open code, and somebody who waits at its gate.
    async fn waiting() -> (SqliteStore, AgentId) {
        let store = SqliteStore::open(OpenOptions {
            path: None,
            durability: Durability::Normal,
            sink: Arc::new(()),
            lock_note: "a test".into(),
        })
        .unwrap();
        for code in [GATED, OPEN] {
            let invite = NewInvite {
                agent: AgentId::trusted("UA"),
                kind: RoomKind::Channel,
                room: RoomName::new("r"),
                verbatim: None,
                code,
                id: format!("invite-{}", code[0]),
                expires_at: 100,
                max_uses: 10,
                gated: code == GATED,
                max_owned_rooms: 10,
                now: 0,
            };
            store.invite(invite).await.unwrap();
        }
        let asks = AgentId::trusted("UB");
        store.redeem(GATED, &asks, 0).await.unwrap();
        (store, asks)
    }

    async fn requests(store: &SqliteStore) -> i64 {
        let count = |tx: &mut Tx<'_>| {
            let count = "SELECT count(*) FROM join_requests";
            Ok(tx.conn.query_row(count, [], |row| row.get(0))?)
        };
        store.writer.run(0, count).await.unwrap()
    }

    #[tokio::test]
    async fn who_joins_by_an_open_code_waits_no_longer() {
        let (store, asks) = waiting().await;
        assert_eq!(requests(&store).await, 1);
        let joined = store.redeem(OPEN, &asks, 0).await.unwrap();
        assert!(matches!(joined, RedeemOutcome::Joined { .. }));
        assert_eq!(requests(&store).await, 0);
    }

    #[tokio::test]
    async fn a_denied_requester_is_denied_at_the_gate_and_not_beside_it() {
        let (store, asks) = waiting().await;
        let deny = |tx: &mut Tx<'_>| {
            let deny = "UPDATE join_requests SET state = 'denied'";
            Ok(tx.conn.execute(deny, [])?)
        };
        store.writer.run(0, deny).await.unwrap();
        let redeem = async |code, now| store.redeem(code, &asks, now).await.unwrap();
        assert_eq!(redeem(GATED, 0).await, RedeemOutcome::Denied);
        assert_eq!(redeem(GATED, 101).await, RedeemOutcome::Expired);
        assert!(matches!(
            redeem(OPEN, 0).await,
            RedeemOutcome::Joined { .. }
        ));
        assert!(matches!(
            redeem(GATED, 0).await,
            RedeemOutcome::Joined { .. }
        ));
    }
}
