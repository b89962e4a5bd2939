//! Taking a turn. One writer runs these one after the other, so that of any number that race one
//! finds the turn open.

use parler_store::{Claiming, Event, TakeOutcome, TurnClaim};
use rusqlite::params;

use super::query;
use super::rows::{self, Mover, commit};
use crate::error::Failure;
use crate::writer::Tx;

/// Takes a turn, or renews one's own take.
pub(super) fn claim(tx: &mut Tx<'_>, claim: &TurnClaim) -> Result<TakeOutcome, Failure> {
    let Some((room, me)) = rows::member(tx, &claim.room, &claim.by.id)? else {
        return Ok(TakeOutcome::NotMember);
    };
    let Some(mut row) = rows::find(tx.conn, room.id, &claim.message)? else {
        return Ok(TakeOutcome::UnknownTurn);
    };
    row.settle(tx, &claim.room, claim.now)?;
    // Who holds it may go on even if its name means somebody else by now.
    if !row.standing.held_by(&me, None) && !row.claimable_by(tx.conn, me, &claim.by)? {
        return Ok(TakeOutcome::NotEligible);
    }
    let until = claim.now + claim.lease;
    match row.standing.claim(&me, claim.renews, until) {
        Claiming::Taken(after) => {
            let by = Mover {
                id: me,
                name: &claim.by.name,
                role: claim.by.role.as_deref(),
                note: None,
                at: claim.now,
            };
            let before = row.clone();
            row.shift(tx, after, &by)?;
            commit(tx, &claim.room, &row, Some(&before))?;
        }
        Claiming::Renewed(after) => {
            // No transition: whoever waits for news of the turn goes on waiting.
            const RENEW: &str = "UPDATE turns SET lease_until = ?2 WHERE seq = ?1";
            tx.conn
                .prepare_cached(RENEW)?
                .execute(params![row.seq, until])?;
            if row.standing.lease_until.is_some_and(|was| until < was) {
                tx.events.push(Event::TurnDue(until));
            }
            row.standing = after;
        }
        Claiming::Lost => {
            let held = !row.standing.state.terminal();
            let holder = query::row(tx.conn, row.seq)?.turn.taken_by;
            return Ok(TakeOutcome::Lost {
                holder: holder.filter(|_| held),
            });
        }
    }
    Ok(TakeOutcome::Won {
        take: row.standing.take,
        lease_until: until,
    })
}
