-- Who holds an execution, and which one is called. A run that is held has a driver, whose lease runs until `leased_until`
-- (or was `released` then); one that was parked has none. `called` is the last request for which its driver was called,
-- `called_at` the time of the first such call. Times are ms since the epoch, by the store's clock.
ALTER TABLE executions ADD COLUMN driver TEXT;
ALTER TABLE executions ADD COLUMN leased_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN called INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN called_at INTEGER;

-- A later link of a chain names the first one, which names none. A child names its parent.
ALTER TABLE executions ADD COLUMN chain TEXT;
ALTER TABLE executions ADD COLUMN link INTEGER NOT NULL DEFAULT 1;
ALTER TABLE executions ADD COLUMN parent TEXT;
ALTER TABLE executions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;

-- Nobody knows who drove the runs that were not parked, so whoever comes first takes them over.
UPDATE executions SET driver = 'unknown' WHERE status = 'running';
UPDATE executions SET ended = 1 WHERE status IN ('completed', 'failed', 'cancelled', 'continued');

DROP INDEX executions_due;
CREATE INDEX executions_due ON executions (wake_at, flow) WHERE wake_at IS NOT NULL;
CREATE INDEX executions_called ON executions (called_at, flow) WHERE called_at IS NOT NULL AND driver IS NULL AND ended = 0;
CREATE INDEX executions_held ON executions (driver, leased_until) WHERE driver IS NOT NULL;
CREATE INDEX executions_links ON executions (chain, link) WHERE chain IS NOT NULL;
CREATE INDEX executions_children ON executions (parent, started_at, id) WHERE parent IS NOT NULL;
