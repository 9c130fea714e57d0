-- One row an execution: where its log stands, what listings show, who holds it, and what the last transaction appended.
-- `run` is the incarnation: a sequence gives no number twice, so a reused id gets a new life. All times are in ms since
-- the epoch. Text that is compared has COLLATE "C": by code point, whatever the cluster's own order is.
CREATE TABLE loom.executions (
    run           bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text     COLLATE "C" NOT NULL UNIQUE,
    length        bigint   NOT NULL,
    flow          text     COLLATE "C" NOT NULL,
    status        text     COLLATE "C" NOT NULL,
    started_at    bigint   NOT NULL,
    updated_at    bigint   NOT NULL,
    wake_at       bigint,
    gates         text     NOT NULL,
    attributes    text     NOT NULL,
    chain         text     COLLATE "C",
    link          bigint   NOT NULL,
    parent        text     COLLATE "C",
    ended         boolean  NOT NULL,
    driver        text     COLLATE "C",
    leased_until  bigint   NOT NULL DEFAULT 0,
    released      boolean  NOT NULL DEFAULT false,
    called        bigint   NOT NULL DEFAULT 0,
    called_at     bigint,
    appended      jsonb    NOT NULL
);

CREATE INDEX executions_newest ON loom.executions (started_at, id);
CREATE INDEX executions_by_status ON loom.executions (status, started_at, id);
CREATE INDEX executions_by_flow ON loom.executions (flow, started_at, id);
CREATE INDEX executions_due ON loom.executions (wake_at, flow) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_waiting ON loom.executions (started_at, id) WHERE gates <> '[]';
CREATE INDEX executions_called ON loom.executions (called_at, flow)
    WHERE called_at IS NOT NULL AND driver IS NULL AND NOT ended;
CREATE INDEX executions_lapsing ON loom.executions (leased_until) WHERE driver IS NOT NULL;
CREATE INDEX executions_held ON loom.executions (driver) WHERE driver IS NOT NULL;
CREATE INDEX executions_links ON loom.executions (chain, link) WHERE chain IS NOT NULL;
CREATE INDEX executions_children ON loom.executions (parent, started_at, id) WHERE parent IS NOT NULL;

-- The logs. Payloads are JSON text, kept as bytes: text and jsonb would refuse what JSON may hold.
CREATE TABLE loom.events (
    run           bigint   NOT NULL,
    sequence      bigint   NOT NULL,
    type          text     NOT NULL,
    at            bigint   NOT NULL,
    payload       bytea    NOT NULL,
    metadata      bytea,
    PRIMARY KEY (run, sequence)
);

-- The request lanes. A key that is not empty is taken once in a life, for ever; it is bytes, since people name keys.
-- `token` names the very insert, so that one of unknown outcome can be repeated.
CREATE TABLE loom.requests (
    run           bigint   NOT NULL,
    number        bigint   NOT NULL,
    kind          text     NOT NULL,
    key           bytea    NOT NULL,
    at            bigint   NOT NULL,
    body          bytea    NOT NULL,
    consumed      boolean  NOT NULL DEFAULT false,
    token         bytea,
    PRIMARY KEY (run, number)
);

CREATE UNIQUE INDEX requests_once ON loom.requests (run, key) WHERE key <> '';
CREATE INDEX requests_pending ON loom.requests (run, number) WHERE NOT consumed;

-- One row a schedule: all its ticks up to and including `at` are handled; `latest` is what it started last.
CREATE TABLE loom.schedules (
    id            text     COLLATE "C" PRIMARY KEY,
    at            bigint   NOT NULL,
    latest        text
);

CREATE TABLE loom.schedule_entries (
    schedule      text     COLLATE "C" NOT NULL,
    tick_at       bigint   NOT NULL,
    until_at      bigint   NOT NULL,
    count         bigint   NOT NULL,
    at            bigint   NOT NULL,
    execution_id  text,
    reason        text,
    PRIMARY KEY (schedule, tick_at)
);

-- Runs that stand in line before they begin, or have begun and keep a slot; `length` is that of the log when it joined.
CREATE TABLE loom.lines (
    run           text     COLLATE "C" PRIMARY KEY,
    number        bigint   NOT NULL UNIQUE,
    stage         text     NOT NULL,
    length        bigint   NOT NULL,
    joined_at     bigint   NOT NULL,
    due_at        bigint,
    newer         text     COLLATE "C",
    quiet_line    bytea,
    quiet_ms      bigint,
    slot_line     bytea,
    slot_runs     bigint,
    pace_line     bytea,
    pace_runs     bigint,
    pace_ms       bigint
);

CREATE INDEX lines_slots ON loom.lines (slot_line, stage, number) WHERE slot_line IS NOT NULL;
CREATE INDEX lines_turns ON loom.lines (pace_line, number) WHERE pace_line IS NOT NULL AND stage = 'turn';
CREATE INDEX lines_quiet ON loom.lines (quiet_line, number) WHERE quiet_line IS NOT NULL AND stage = 'quiet';
CREATE INDEX lines_newer ON loom.lines (newer) WHERE newer IS NOT NULL;
CREATE INDEX lines_due ON loom.lines (due_at) WHERE due_at IS NOT NULL;

-- When runs began, by what counts them.
CREATE TABLE loom.turns (
    line          bytea    NOT NULL,
    at            bigint   NOT NULL
);

CREATE INDEX turns_of_line ON loom.turns (line, at);

-- The store's clock is the server's; a test gives the time.
CREATE FUNCTION loom.clock_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;
