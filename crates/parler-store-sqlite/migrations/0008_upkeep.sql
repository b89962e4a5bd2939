-- What keeps a store small.

-- Place of the last message that retention looked at: what is left at or below it stays for a
-- reason of its own, and is little.
ALTER TABLE rooms ADD COLUMN pruned_seq INTEGER NOT NULL DEFAULT 0;

CREATE INDEX invites_end ON invites (expires_at);
