-- One row an execution: where its log stands, what listings show, and what the last transaction appended.
-- The row id is the incarnation: AUTOINCREMENT never gives a number twice, so a reused id gets a new life.
CREATE TABLE executions (
    run         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    length      INTEGER NOT NULL,
    flow        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    wake_at     INTEGER,
    gates       TEXT    NOT NULL,
    attributes  TEXT    NOT NULL,
    appended    TEXT    NOT NULL
);

CREATE INDEX executions_newest ON executions (started_at, id);
CREATE INDEX executions_by_status ON executions (status, started_at, id);
CREATE INDEX executions_by_flow ON executions (flow, started_at, id);
CREATE INDEX executions_due ON executions (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_waiting ON executions (started_at, id) WHERE gates <> '[]';

-- The logs, in the order in which they were committed. The payload is JSON text, kept as bytes.
CREATE TABLE events (
    position    INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    payload     BLOB    NOT NULL,
    metadata    BLOB
);

CREATE UNIQUE INDEX events_of_run ON events (run, sequence);

-- The request lanes. A key that is not empty is taken once in a life, for ever.
CREATE TABLE requests (
    run         INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    consumed    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE UNIQUE INDEX requests_once ON requests (run, key) WHERE key <> '';
CREATE INDEX requests_pending ON requests (run, number) WHERE consumed = 0;
