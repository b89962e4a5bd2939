-- What the store knows of blobs: their size, type, and the rooms that they were posted to. The bytes
-- are files, kept by the hub.

CREATE TABLE blobs (
    id         INTEGER PRIMARY KEY,
    sha256     TEXT NOT NULL UNIQUE, -- 64 lower-case hexadecimal digits
    size       INTEGER NOT NULL,
    media_type TEXT,                 -- of whoever posted it first
    created_at INTEGER NOT NULL,
    fetched_at INTEGER,
    used_at    INTEGER NOT NULL      -- the later of posted and fetched: what retention goes by
) STRICT;

CREATE INDEX blobs_used ON blobs (used_at);

CREATE TABLE blob_rooms (
    blob_id INTEGER NOT NULL REFERENCES blobs (id),
    room_id INTEGER NOT NULL REFERENCES rooms (id),
    PRIMARY KEY (blob_id, room_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_rooms_room ON blob_rooms (room_id);

-- The bytes of all blobs, each content once. Kept by triggers: no path can forget it, and every
-- upload asks.
INSERT INTO meta (key, value) VALUES ('blob_bytes', 0);

CREATE TRIGGER blobs_added AFTER INSERT ON blobs BEGIN
    UPDATE meta SET value = value + new.size WHERE key = 'blob_bytes';
END;

CREATE TRIGGER blobs_removed AFTER DELETE ON blobs BEGIN
    UPDATE meta SET value = value - old.size WHERE key = 'blob_bytes';
END;
