-- Contents: each once, under the SHA-256 of its bytes, in pieces. One without an address is still being put, or is being
-- removed (`touched_at` is 0 then). `touched_at` is when it was last put or cited, in ms since the epoch, by the store's clock.
CREATE TABLE loom.contents (
    id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ref          text    COLLATE "C" UNIQUE,
    size         bigint  NOT NULL DEFAULT 0,
    touched_at   bigint  NOT NULL
);

CREATE INDEX contents_unfinished ON loom.contents (touched_at) WHERE ref IS NULL;

-- `start` is the place of the first byte of a piece. Contents are often compressed already.
CREATE TABLE loom.content_pieces (
    content      bigint  NOT NULL,
    start        bigint  NOT NULL,
    data         bytea   NOT NULL,
    PRIMARY KEY (content, start)
);

-- Within CREATE TABLE only Postgres 16 and later know it.
ALTER TABLE loom.content_pieces ALTER COLUMN data SET STORAGE EXTERNAL;

-- Who cites what. A life of -1 has no number yet: the log is about to begin.
CREATE TABLE loom.content_citations (
    ref          text    COLLATE "C" NOT NULL,
    execution_id text    COLLATE "C" NOT NULL,
    life         bigint  NOT NULL,
    at           bigint  NOT NULL,
    PRIMARY KEY (ref, execution_id, life)
);
