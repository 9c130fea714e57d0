-- What an archive keeps: copies of events and of consumed requests, of one life of an execution each. These tables are used
-- where the file was named as an archive; the logs of its own executions are in the others. `run` is the incarnation in the
-- store that the copies are from.
CREATE TABLE archived_lives (
    life        INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    run         INTEGER NOT NULL,
    events      INTEGER NOT NULL DEFAULT 0,
    last        INTEGER NOT NULL DEFAULT -1,
    requests    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (id, run)
);

CREATE TABLE archived_events (
    life        INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    payload     BLOB    NOT NULL,
    metadata    BLOB,
    PRIMARY KEY (life, sequence)
) WITHOUT ROWID;

CREATE TABLE archived_requests (
    life        INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    key         BLOB    NOT NULL,
    at          INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (life, number)
) WITHOUT ROWID;
