-- What an archive keeps: copies of events and of consumed requests, of one life of an execution each. These tables are used
-- where the database was named as an archive; the logs of its own executions are in the others. `run` is the incarnation in
-- the store that the copies are from.
CREATE TABLE loom.archived_lives (
    life          bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text     COLLATE "C" NOT NULL,
    run           bigint   NOT NULL,
    events        bigint   NOT NULL DEFAULT 0,
    last          bigint   NOT NULL DEFAULT -1,
    requests      bigint   NOT NULL DEFAULT 0,
    UNIQUE (id, run)
);

CREATE TABLE loom.archived_events (
    life          bigint   NOT NULL,
    sequence      bigint   NOT NULL,
    type          text     NOT NULL,
    at            bigint   NOT NULL,
    payload       bytea    NOT NULL,
    metadata      bytea,
    PRIMARY KEY (life, sequence)
);

CREATE TABLE loom.archived_requests (
    life          bigint   NOT NULL,
    number        bigint   NOT NULL,
    kind          text     NOT NULL,
    key           bytea    NOT NULL,
    at            bigint   NOT NULL,
    body          bytea    NOT NULL,
    PRIMARY KEY (life, number)
);
