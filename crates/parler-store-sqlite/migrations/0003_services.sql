-- Service queues: work that is dispatched to a role, and whoever serves it claims a piece.

-- Nothing at or below this place is shown to the member: it came by itself, without an invite.
ALTER TABLE members ADD COLUMN visible_after INTEGER NOT NULL DEFAULT 0;

CREATE TABLE workers (
    room_id  INTEGER NOT NULL REFERENCES rooms (id),
    agent_id INTEGER NOT NULL REFERENCES agents (id),
    role     TEXT NOT NULL, -- as the worker wrote it
    PRIMARY KEY (room_id, agent_id)
) STRICT, WITHOUT ROWID;

-- Work that is not ended yet, held or not: one row a role that it was dispatched to. What is ended
-- leaves, so that looking for work costs what waits and not what was ever done.
CREATE TABLE dispatches (
    room_id INTEGER NOT NULL,
    role    TEXT NOT NULL, -- ASCII letters in lower case
    seq     INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (seq, role)
) STRICT, WITHOUT ROWID;

CREATE INDEX dispatches_role ON dispatches (room_id, role, seq);
CREATE INDEX dispatches_message ON dispatches (message);

-- Every piece of work that was ever taken.
CREATE TABLE claims (
    seq         INTEGER PRIMARY KEY,
    room_id     INTEGER NOT NULL,
    message     TEXT NOT NULL UNIQUE,
    agent_id    INTEGER NOT NULL REFERENCES agents (id),
    state       TEXT NOT NULL CHECK (state IN ('active', 'done', 'failed', 'cancelled')),
    take        INTEGER NOT NULL, -- how often it was taken
    lease_until INTEGER NOT NULL
) STRICT;

CREATE INDEX claims_holder ON claims (room_id, agent_id);
