-- The position of an event is its place in the order in which transactions were committed. SQLite gives the next one after the
-- greatest there is. So that none is given twice, what was deleted at the end leaves a row of no run with its position.
CREATE TRIGGER events_last AFTER DELETE ON events
WHEN old.position > (SELECT ifnull(max(position), 0) FROM events)
BEGIN
    DELETE FROM events WHERE run = 0;
    INSERT INTO events (position, run, sequence, type, at, payload) VALUES (old.position, 0, 0, '', 0, x'');
END;
