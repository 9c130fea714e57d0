-- Which run is a fork of which: by the incarnations of both, the last event that they share, and when it left.
CREATE TABLE forks (
    run         INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL,
    through     INTEGER NOT NULL
);

CREATE INDEX forks_of_run ON forks (source, run);

-- What the names of a family stood for, move by move; `run` is the incarnation of the run that is a fork of none.
CREATE TABLE refs (
    run           INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    execution_id  TEXT    NOT NULL,
    at            INTEGER NOT NULL,
    principal     TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    PRIMARY KEY (run, name, number)
) WITHOUT ROWID;
