//! What a message does to the ledger: it offers a turn, answers one, ends one, passes one on.

use parler_protocol::{RoomName, TurnState};
use parler_store::{Actor, Append, Claiming, Event, LedgerNotes, Offer, Report};
use rusqlite::params;

use super::rows::{self, Mover, Row, STALL, commit, tell};
use crate::writer::Tx;

/// Note of a turn that its holder handed on.
const PASSED_ON: &str = "passed on";

/// A message was stored, in this very transaction.
pub(crate) fn appended(
    tx: &mut Tx<'_>,
    room: i64,
    author: i64,
    seq: i64,
    append: &Append,
) -> rusqlite::Result<()> {
    let notes = append.ledger.as_deref();
    if let Some(message) = &append.reply_to
        && let Some(row) = rows::find(tx.conn, room, message)?
        && !row.standing.state.terminal()
    {
        replied(tx, row, author, append, notes)?;
    }
    if let Some(offer) = notes.and_then(|notes| notes.offer.as_ref()) {
        born(tx, (room, seq, author), append, offer)?;
    }
    Ok(())
}

/// A reply to an active turn.
fn replied(
    tx: &mut Tx<'_>,
    mut row: Row,
    author: i64,
    append: &Append,
    notes: Option<&LedgerNotes>,
) -> rusqlite::Result<()> {
    row.settle(tx, &append.room, append.now)?;
    if let Some(report) = notes.and_then(end) {
        return ended(tx, row, author, append, report);
    }
    let answers = notes.is_none_or(|notes| !notes.progress);
    if answers && row.standing.held_by(&author, None) && row.answered_at.is_none() {
        let before = row.clone();
        row.answered_at = Some(append.now);
        commit(tx, &append.room, &row, Some(&before))?;
    }
    Ok(())
}

/// The end that a reply implies.
fn end(notes: &LedgerNotes) -> Option<Report> {
    let passed_on = || Report {
        end: TurnState::Done,
        note: Some(PASSED_ON.into()),
        result: None,
    };
    let offers = notes.offer.is_some();
    notes.report.clone().or_else(|| offers.then(passed_on))
}

/// Ends the author's take; of an open turn that it may claim, takes it first.
fn ended(
    tx: &mut Tx<'_>,
    mut row: Row,
    author: i64,
    append: &Append,
    report: Report,
) -> rusqlite::Result<()> {
    let who = Actor {
        id: append.agent.clone(),
        name: append.name.clone(),
        role: append.role.clone(),
    };
    let before = row.clone();
    let mover = |note| Mover {
        id: author,
        name: &append.name,
        role: append.role.as_deref(),
        note,
        at: append.now,
    };
    if row.standing.state == TurnState::Open && row.claimable_by(tx.conn, author, &who)? {
        let claim = row.standing.claim(&author, None, append.now);
        if let Claiming::Taken(taken) = claim {
            row.shift(tx, taken, &mover(None))?;
        }
    }
    let Some(to) = row.standing.complete(&author, None, report.end) else {
        return Ok(());
    };
    row.result = report.result;
    row.shift(tx, to, &mover(report.note.as_deref()))?;
    commit(tx, &append.room, &row, Some(&before))
}

/// A turn is born.
fn born(
    tx: &mut Tx<'_>,
    (room, seq, author): (i64, i64, i64),
    append: &Append,
    offer: &Offer,
) -> rusqlite::Result<()> {
    const INSERT: &str = "INSERT INTO turns (seq, room_id, offerer, state, rev, deadline,
            offered_at, opened_at, stall_at, addressee, message, bundle, summary, next)
        VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let rev = tx.mirror.take_rev(tx.conn)?;
    let stall_at = append.now + STALL;
    tx.conn.prepare_cached(INSERT)?.execute(params![
        seq,
        room,
        author,
        rev,
        offer.deadline,
        append.now,
        stall_at,
        offer.to,
        append.id,
        offer.bundle,
        offer.summary,
        offer.next,
    ])?;
    tx.mirror.note_open_turn(room);
    tx.events.push(Event::TurnDue(stall_at));
    told(tx, &append.room, seq)
}

fn told(tx: &mut Tx<'_>, room: &RoomName, seq: i64) -> rusqlite::Result<()> {
    tell(tx, room, seq, None)
}
