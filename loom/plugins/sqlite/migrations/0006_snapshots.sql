-- Folded states, a cache beside the logs. A row whose events are gone is a checkpoint. The body is last: what is before it can
-- be read without it.
CREATE TABLE snapshots (
    run                  INTEGER NOT NULL,
    sequence             INTEGER NOT NULL,
    fold_version         TEXT    NOT NULL,
    state_codec_version  TEXT    NOT NULL,
    codec                TEXT    NOT NULL,
    is_checkpoint        INTEGER NOT NULL,
    at                   INTEGER NOT NULL,
    digest               TEXT    NOT NULL,
    body                 BLOB    NOT NULL
);

CREATE UNIQUE INDEX snapshots_of_run ON snapshots (run, sequence);
