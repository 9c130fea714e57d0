-- Runs that stand in line before they begin, or have begun and keep a slot. A run is named by its id, since it joins before its
-- log is written; `length` is that of its log then. `number` is its place. Times are ms since the epoch, by the store's clock.
CREATE TABLE lines (
    run          TEXT    PRIMARY KEY,
    number       INTEGER NOT NULL UNIQUE,
    stage        TEXT    NOT NULL,
    length       INTEGER NOT NULL,
    joined_at    INTEGER NOT NULL,
    due_at       INTEGER,
    newer        TEXT,
    quiet_line   TEXT,
    quiet_ms     INTEGER,
    slot_line    TEXT,
    slot_runs    INTEGER,
    pace_line    TEXT,
    pace_runs    INTEGER,
    pace_ms      INTEGER
) WITHOUT ROWID;

CREATE INDEX lines_slots ON lines (slot_line, stage, number) WHERE slot_line IS NOT NULL;
CREATE INDEX lines_turns ON lines (pace_line, number) WHERE pace_line IS NOT NULL AND stage = 'turn';
CREATE INDEX lines_quiet ON lines (quiet_line, number) WHERE quiet_line IS NOT NULL AND stage = 'quiet';
CREATE INDEX lines_newer ON lines (newer) WHERE newer IS NOT NULL;
CREATE INDEX lines_due ON lines (due_at) WHERE due_at IS NOT NULL;

-- When runs began, by what counts them; what is older than the span of its line is forgotten.
CREATE TABLE turns (
    line         TEXT    NOT NULL,
    at           INTEGER NOT NULL
);

CREATE INDEX turns_of_line ON turns (line, at);
