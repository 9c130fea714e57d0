-- What read models say of runs: of each version of a model, and of each life, one row that only goes forward. One without a body
-- says nothing, and that the events up to it were looked at. `since` is when the first one was put there, ms since the epoch.
CREATE TABLE loom.model_rows (
    model         text     COLLATE "C" NOT NULL,
    version       text     COLLATE "C" NOT NULL,
    run           bigint   NOT NULL,
    sequence      bigint   NOT NULL,
    since         bigint   NOT NULL,
    body          bytea,
    PRIMARY KEY (model, version, run)
);

CREATE INDEX model_rows_of_run ON loom.model_rows (run);

-- Runs that were taken out of every model, for good.
CREATE TABLE loom.models_erased (
    run           bigint   PRIMARY KEY
);
