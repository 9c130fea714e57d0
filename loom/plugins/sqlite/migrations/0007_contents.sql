-- Contents: each once, under the SHA-256 of its bytes, in pieces. One without an address is still being put, or is being
-- removed (`touched_at` is 0 then). `touched_at` is when it was last put or cited, in ms since the epoch, by the store's clock.
CREATE TABLE contents (
    id           INTEGER PRIMARY KEY,
    ref          TEXT    UNIQUE,
    size         INTEGER NOT NULL DEFAULT 0,
    touched_at   INTEGER NOT NULL
);

CREATE INDEX contents_unfinished ON contents (touched_at) WHERE ref IS NULL;

-- `start` is the place of the first byte of a piece.
CREATE TABLE content_pieces (
    id           INTEGER PRIMARY KEY,
    content      INTEGER NOT NULL,
    start        INTEGER NOT NULL,
    data         BLOB    NOT NULL
);

CREATE UNIQUE INDEX pieces_of_content ON content_pieces (content, start);

-- Who cites what. A life of -1 has no number yet: the log is about to begin.
CREATE TABLE content_citations (
    ref          TEXT    NOT NULL,
    execution_id TEXT    NOT NULL,
    life         INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    PRIMARY KEY (ref, execution_id, life)
) WITHOUT ROWID;
