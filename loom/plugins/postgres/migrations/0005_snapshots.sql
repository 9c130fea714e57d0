-- Folded states, a cache beside the logs. A row whose events are gone is a checkpoint.
CREATE TABLE loom.snapshots (
    run                  bigint   NOT NULL,
    sequence             bigint   NOT NULL,
    fold_version         text     NOT NULL,
    state_codec_version  text     NOT NULL,
    codec                text     NOT NULL,
    is_checkpoint        boolean  NOT NULL,
    at                   bigint   NOT NULL,
    digest               text     NOT NULL,
    body                 bytea    NOT NULL,
    PRIMARY KEY (run, sequence)
);
