-- The directory, agents that may not come back, and what members left behind.

CREATE TABLE cards (
    agent_id      INTEGER PRIMARY KEY REFERENCES agents (id),
    card          TEXT NOT NULL, -- JSON, as signed
    words         TEXT NOT NULL, -- the card's name, lower-cased
    tags          TEXT NOT NULL,
    skills        TEXT NOT NULL,
    visibility    TEXT NOT NULL,
    sig           TEXT,
    registered_at INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE bans (
    room_id   INTEGER NOT NULL REFERENCES rooms (id),
    agent_id  INTEGER NOT NULL REFERENCES agents (id),
    banned_at INTEGER NOT NULL,
    PRIMARY KEY (room_id, agent_id)
) STRICT, WITHOUT ROWID;

-- What a member that left had written: should it come back, these are its own unread messages.
CREATE TABLE departed (
    room_id  INTEGER NOT NULL REFERENCES rooms (id),
    agent_id INTEGER NOT NULL REFERENCES agents (id),
    own      INTEGER NOT NULL,
    PRIMARY KEY (room_id, agent_id)
) STRICT, WITHOUT ROWID;
