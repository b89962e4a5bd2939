-- Facts that agents remember and recall.
--
-- A `scope` is where a fact can be seen: the id of its room, or the author's id below zero for its
-- private memory. A `shelf` holds so many facts of one scope (the program knows how many), in the
-- order of their first writing: a search goes through them one by one and may stop.

CREATE TABLE facts (
    id        INTEGER PRIMARY KEY,
    scope     INTEGER NOT NULL,
    shelf     INTEGER NOT NULL,
    author_id INTEGER NOT NULL REFERENCES agents (id),
    ts        INTEGER NOT NULL, -- last write
    model     TEXT,             -- what made the vector
    key       TEXT,
    text      TEXT NOT NULL
) STRICT;

CREATE INDEX facts_scope ON facts (scope, shelf);
CREATE UNIQUE INDEX facts_key ON facts (scope, key, author_id) WHERE key IS NOT NULL;
CREATE INDEX facts_keyed ON facts (author_id) WHERE key IS NOT NULL;
CREATE INDEX facts_unkeyed ON facts (author_id, scope) WHERE key IS NULL;

-- Facts that were ever written into a scope, which says the shelf of the next one.
CREATE TABLE fact_scopes (
    scope   INTEGER PRIMARY KEY,
    written INTEGER NOT NULL,
    newest  INTEGER NOT NULL -- fact
) STRICT;

-- One vector a row, little-endian 32-bit floats: a row of 768 fills a page.
CREATE TABLE fact_vectors (
    fact_id INTEGER PRIMARY KEY,
    scope   INTEGER NOT NULL,
    vector  BLOB NOT NULL
) STRICT;

CREATE INDEX fact_vectors_scope ON fact_vectors (scope);

-- The words of facts, each with the scope and the shelf of its fact in front of it, so that a search
-- meets no word of another scope. Made by the program: the tokenizer only splits at blanks.
CREATE VIRTUAL TABLE fact_words USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'ascii'
);

CREATE TRIGGER facts_forget AFTER DELETE ON facts BEGIN
    DELETE FROM fact_words WHERE rowid = old.id;
    DELETE FROM fact_vectors WHERE fact_id = old.id;
END;
