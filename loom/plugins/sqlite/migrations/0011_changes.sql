-- The position of an event is its place in the order in which transactions were committed. SQLite gives the next one after the
-- greatest there is; so once the last events are deleted, their positions are given to others. Each time is a row here, with
-- the last position that was left. A cursor names the time it is of, and so which positions mean the same as then.
CREATE TABLE cuts (
    number      INTEGER PRIMARY KEY,
    last        INTEGER NOT NULL
);
