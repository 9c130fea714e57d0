-- What read models say of runs: of each version of a model, and of each life, one row that only goes forward. One without a body
-- says nothing, and that the events up to it were looked at. `since` is when the first one was put there, ms since the epoch.
CREATE TABLE model_rows (
    id          INTEGER PRIMARY KEY,
    model       TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    run         INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    body        BLOB
);

CREATE UNIQUE INDEX model_rows_of_model ON model_rows (model, version, run);
CREATE INDEX model_rows_of_run ON model_rows (run);

-- Runs that were taken out of every model, for good.
CREATE TABLE models_erased (
    run         INTEGER PRIMARY KEY
);
