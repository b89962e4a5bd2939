-- The turn ledger: what became of every handoff.

-- Counts the births and moves of turns; never goes back.
INSERT INTO meta (key, value) VALUES ('turn_rev', 0);

-- One row a handoff, born with its message. Author, time and room's name are the message's.
-- Whoever deletes messages must leave those of active turns alone:
--     NOT EXISTS (SELECT 1 FROM turns WHERE turns.seq = messages.seq AND state IN ('open', 'taken'))
-- which the primary key answers; `turns_active` lists a room's. The rest goes by the trigger below.
-- Long texts come last, so that a look at the state never reads them.
CREATE TABLE turns (
    seq         INTEGER PRIMARY KEY, -- of the message
    room_id     INTEGER NOT NULL,
    offerer     INTEGER NOT NULL,    -- the message's author
    state       TEXT NOT NULL,
    take        INTEGER NOT NULL DEFAULT 0,
    rev         INTEGER NOT NULL,
    holder      INTEGER,             -- who holds it, or held it when it ended
    taken_at    INTEGER,
    lease_until INTEGER,
    deadline    INTEGER,
    offered_at  INTEGER NOT NULL,
    opened_at   INTEGER NOT NULL,    -- since when it was last open
    finished_at INTEGER,
    answered_at INTEGER,
    stall_at    INTEGER,             -- when somebody should look why nothing happens
    run_outs    INTEGER NOT NULL DEFAULT 0,
    holder_name TEXT,                -- as it logged in
    holder_role TEXT,
    last_holder TEXT,                -- name of who held it before
    addressee   TEXT,
    message     TEXT NOT NULL UNIQUE,
    held        TEXT,                -- why the loop guard holds it back
    bundle      TEXT,
    result      TEXT,
    note        TEXT,
    summary     TEXT,
    next        TEXT NOT NULL
) STRICT;

CREATE INDEX turns_room ON turns (room_id, seq);
CREATE INDEX turns_active ON turns (room_id, seq) WHERE state IN ('open', 'taken');
CREATE INDEX turns_rev ON turns (room_id, rev);
CREATE INDEX turns_holder ON turns (holder, room_id) WHERE state = 'taken';
CREATE INDEX turns_lease ON turns (lease_until) WHERE state = 'taken';
CREATE INDEX turns_deadline ON turns (deadline) WHERE state = 'open' AND deadline IS NOT NULL;
CREATE INDEX turns_stall ON turns (stall_at) WHERE stall_at IS NOT NULL;

CREATE TABLE turn_history (
    turn       INTEGER NOT NULL,
    rev        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    by_agent   INTEGER NOT NULL REFERENCES agents (id),
    by_name    TEXT NOT NULL,
    by_role    TEXT,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    note       TEXT,
    PRIMARY KEY (turn, rev)
) STRICT, WITHOUT ROWID;

-- When a member's cursor passed an open turn.
CREATE TABLE turn_seen (
    turn     INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (turn, agent_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER turn_goes_with_its_message AFTER DELETE ON messages BEGIN
    DELETE FROM turn_history WHERE turn = OLD.seq;
    DELETE FROM turn_seen WHERE turn = OLD.seq;
    DELETE FROM turns WHERE seq = OLD.seq;
    DELETE FROM held WHERE seq = OLD.seq;
END;

-- Whom a name means in a room: who used it first there, or whom the owner says.
CREATE TABLE room_names (
    room_id  INTEGER NOT NULL REFERENCES rooms (id),
    name     TEXT NOT NULL, -- trimmed, ASCII lower case
    agent_id INTEGER NOT NULL REFERENCES agents (id),
    PRIMARY KEY (room_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX room_names_agent ON room_names (agent_id, room_id);

INSERT OR IGNORE INTO room_names (room_id, name, agent_id)
    SELECT m.room_id, lower(trim(a.name)), m.agent_id
    FROM members m JOIN agents a ON a.id = m.agent_id
    WHERE trim(a.name) <> '' ORDER BY m.joined_at;

-- What a room's owner sets for the loop guard; absent: the defaults.
CREATE TABLE room_guard (
    room_id           INTEGER PRIMARY KEY REFERENCES rooms (id),
    hop_limit         INTEGER,
    handoff_hop_limit INTEGER
) STRICT;

-- How far each chain of messages got in a room, and from where its limits count.
CREATE TABLE guard_chains (
    room_id INTEGER NOT NULL REFERENCES rooms (id),
    root    TEXT NOT NULL,
    reached INTEGER NOT NULL,
    turn_at INTEGER NOT NULL, -- hop of its last handoff
    base    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (room_id, root)
) STRICT, WITHOUT ROWID;

CREATE INDEX guard_chains_age ON guard_chains (room_id, at);

-- Messages that wake nobody.
CREATE TABLE held (
    seq     INTEGER PRIMARY KEY,
    room_id INTEGER NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

CREATE INDEX held_room ON held (room_id, seq);
