-- The first schema: agents, rooms, members, the log, invites.
--
-- Times are milliseconds since the epoch. `seq` is hub-wide, `ord` counts a room's messages from 1.

CREATE TABLE migrations (
    version  INTEGER PRIMARY KEY,
    checksum BLOB NOT NULL -- SHA-256 of the file that was applied
) STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- No `seq` at or below this was ever free again; raised by whatever deletes messages.
INSERT INTO meta (key, value) VALUES ('seq_floor', 0);

CREATE TABLE agents (
    id         INTEGER PRIMARY KEY,
    agent      TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    role       TEXT,
    first_seen INTEGER NOT NULL,
    last_hello INTEGER NOT NULL -- 0: never logged in
) STRICT;

CREATE TABLE presence (
    agent_id  INTEGER PRIMARY KEY REFERENCES agents (id),
    status    TEXT NOT NULL,
    activity  TEXT,
    attention TEXT,
    at        INTEGER NOT NULL
) STRICT;

CREATE TABLE rooms (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    kind         TEXT NOT NULL,
    owner        INTEGER REFERENCES agents (id),
    gated        INTEGER NOT NULL DEFAULT 0, -- 1: was gated at least once
    member_count INTEGER NOT NULL DEFAULT 0,
    head_seq     INTEGER NOT NULL DEFAULT 0,
    head_ord     INTEGER NOT NULL DEFAULT 0,
    pruned_ord   INTEGER NOT NULL DEFAULT 0, -- messages up to this ordinal are gone
    created_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX rooms_owner ON rooms (owner) WHERE owner IS NOT NULL;

CREATE TABLE members (
    room_id    INTEGER NOT NULL REFERENCES rooms (id),
    agent_id   INTEGER NOT NULL REFERENCES agents (id),
    cursor     INTEGER NOT NULL DEFAULT 0,
    cursor_ord INTEGER NOT NULL DEFAULT 0, -- ordinal of the last message at or below the cursor
    own_unread INTEGER NOT NULL DEFAULT 0, -- the member's own messages above its cursor
    joined_at  INTEGER NOT NULL,
    PRIMARY KEY (room_id, agent_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX members_agent ON members (agent_id);

-- The log. `parts` comes last, so that nothing else lies behind a long body. No foreign keys: the
-- writer has just looked up both ends, and a check a row is paid on the hottest path there is.
CREATE TABLE messages (
    seq         INTEGER PRIMARY KEY,
    room_id     INTEGER NOT NULL,
    ord         INTEGER NOT NULL,
    author_id   INTEGER NOT NULL,
    ts          INTEGER NOT NULL,
    id          TEXT NOT NULL,
    author_name TEXT NOT NULL,
    author_role TEXT,
    reply_to    TEXT,
    client_id   TEXT,
    digest      BLOB,
    mentions    TEXT, -- JSON array
    parts       TEXT NOT NULL -- JSON array
) STRICT;

-- Covers what cursors ask (ordinal and author of a place), so they never read bodies.
CREATE INDEX messages_room ON messages (room_id, seq, ord, author_id);

-- The key first: clients make keys that begin with the time (UUIDv7), so that the newest ones of all
-- rooms meet on one page, where the other order would dirty a page for each author.
CREATE UNIQUE INDEX messages_key ON messages (client_id, room_id, author_id)
    WHERE client_id IS NOT NULL;

CREATE TABLE invites (
    code_hash  BLOB PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    room_id    INTEGER NOT NULL REFERENCES rooms (id),
    minted_by  INTEGER NOT NULL REFERENCES agents (id),
    gated      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    max_uses   INTEGER NOT NULL,
    uses       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX invites_room ON invites (room_id);

CREATE TABLE join_requests (
    room_id      INTEGER NOT NULL REFERENCES rooms (id),
    agent_id     INTEGER NOT NULL REFERENCES agents (id),
    state        TEXT NOT NULL CHECK (state IN ('pending', 'denied')),
    requested_at INTEGER NOT NULL,
    PRIMARY KEY (room_id, agent_id)
) STRICT, WITHOUT ROWID;
