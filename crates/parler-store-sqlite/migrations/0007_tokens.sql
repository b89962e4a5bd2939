-- Read-only and admin tokens for HTTP.

CREATE TABLE tokens (
    token_hash BLOB PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    room_id    INTEGER REFERENCES rooms (id), -- NULL: the directory
    minted_by  INTEGER NOT NULL REFERENCES agents (id),
    expires_at INTEGER NOT NULL, -- the last millisecond at which it is good
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tokens_minter ON tokens (minted_by, expires_at);
CREATE INDEX tokens_room ON tokens (room_id) WHERE room_id IS NOT NULL;
CREATE INDEX tokens_end ON tokens (expires_at);

-- Counting cards reads no card.
CREATE INDEX cards_visibility ON cards (visibility);
