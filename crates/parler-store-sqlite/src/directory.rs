//! Cards: storing them and finding them.

use parler_protocol::{AgentId, Visibility};
use parler_store::{CardFilter, CardRow, MAX_CARDS, NewCard, PAGE_BYTES, PresenceRow};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};

use crate::agents;
use crate::error::Failure;
use crate::rooms::attention;
use crate::writer::Tx;

const COLUMNS: &str = "a.agent, c.card, c.visibility, c.sig, p.status, p.activity, p.attention,
    p.at, a.first_seen, a.last_hello
    FROM cards c JOIN agents a ON a.id = c.agent_id LEFT JOIN presence p ON p.agent_id = a.id";

/// Stores a card.
pub(crate) fn register(tx: &mut Tx<'_>, card: &NewCard) -> Result<(), Failure> {
    const STORE: &str = "INSERT INTO cards
            (agent_id, card, words, tags, skills, visibility, sig, registered_at, updated_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
        ON CONFLICT (agent_id) DO UPDATE SET card = excluded.card, words = excluded.words,
            tags = excluded.tags, skills = excluded.skills, visibility = excluded.visibility,
            sig = excluded.sig, updated_at = excluded.updated_at";
    let id = agents::ensure(tx, &card.agent, card.now)?;
    tx.conn.prepare_cached(STORE)?.execute(params![
        id,
        card.card,
        card.words,
        card.tags,
        card.skills,
        card.visibility.as_str(),
        card.sig,
        card.now,
    ])?;
    Ok(())
}

/// Whether an agent has a card.
pub(crate) fn has_card(conn: &Connection, agent: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM cards WHERE agent_id = ?1)")?
        .query_row([agent], |row| row.get(0))
}

/// Finds cards. `instr` knows no special characters.
pub(crate) fn discover(conn: &Connection, filter: &CardFilter) -> rusqlite::Result<Vec<CardRow>> {
    let find = format!(
        "SELECT {COLUMNS}
        WHERE (?1 = 0 OR c.visibility = 'public')
            AND (?2 IS NULL OR instr(c.words, ?2) OR instr(lower(a.name), ?2)
                OR instr(c.tags, ?2) OR instr(c.skills, ?2))
            AND (?3 IS NULL OR instr(c.tags, ?3))
            AND (?4 IS NULL OR instr(c.skills, ?4))
        ORDER BY a.last_hello DESC, a.agent LIMIT ?5"
    );
    let limit = i64::try_from(MAX_CARDS).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&find)?;
    let mut rows = statement.query(params![
        filter.public_only,
        filter.query,
        filter.tag,
        filter.skill,
        limit
    ])?;
    page(&mut rows)
}

/// Cards of a room's members, by name then id, as many as a page takes.
pub(crate) fn of_members(conn: &Connection, room: i64) -> rusqlite::Result<Vec<CardRow>> {
    let find = format!(
        "SELECT {COLUMNS} JOIN members m ON m.agent_id = a.id
        WHERE m.room_id = ?1 ORDER BY a.name, a.agent"
    );
    let mut statement = conn.prepare_cached(&find)?;
    let mut rows = statement.query([room])?;
    page(&mut rows)
}

/// The cards of a query, as many as a page takes.
fn page(rows: &mut Rows<'_>) -> rusqlite::Result<Vec<CardRow>> {
    let (mut cards, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let card = card_row(row)?;
        bytes += card.card.len();
        if bytes > PAGE_BYTES && !cards.is_empty() {
            break;
        }
        cards.push(card);
    }
    Ok(cards)
}

/// One card.
pub(crate) fn lookup(conn: &Connection, agent: &AgentId) -> rusqlite::Result<Option<CardRow>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} WHERE a.agent = ?1"))?
        .query_row([agent.as_str()], card_row)
        .optional()
}

fn card_row(row: &Row<'_>) -> rusqlite::Result<CardRow> {
    let presence = match row.get::<_, Option<String>>(4)? {
        None => None,
        Some(status) => Some(PresenceRow {
            status,
            activity: row.get(5)?,
            attention: attention(row, 6)?,
            at: row.get(7)?,
        }),
    };
    Ok(CardRow {
        agent: AgentId::trusted(row.get_ref(0)?.as_str()?),
        card: row.get(1)?,
        // A word that a later version wrote is seen by as few as possible.
        visibility: Visibility::from_wire(row.get_ref(2)?.as_str()?).unwrap_or_default(),
        sig: row.get(3)?,
        presence,
        first_seen: row.get(8)?,
        last_seen: row.get(9)?,
    })
}
