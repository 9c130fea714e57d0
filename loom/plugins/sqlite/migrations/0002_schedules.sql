-- One row a schedule: all its ticks up to and including `at` are handled; `latest` is what it started last.
CREATE TABLE schedules (
    id          TEXT    PRIMARY KEY,
    at          INTEGER NOT NULL,
    latest      TEXT
) WITHOUT ROWID;

-- What became of its ticks: one was started, or some in a row were skipped for one reason.
CREATE TABLE schedule_entries (
    schedule      TEXT    NOT NULL,
    tick_at       INTEGER NOT NULL,
    until_at      INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    execution_id  TEXT,
    reason        TEXT,
    PRIMARY KEY (schedule, tick_at)
) WITHOUT ROWID;
