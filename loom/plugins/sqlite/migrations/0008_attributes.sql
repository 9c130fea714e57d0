-- When an execution ended: the last event of the append that ended it. Of those that ended before, the last event there is.
ALTER TABLE executions ADD COLUMN ended_at INTEGER;
UPDATE executions SET ended_at = updated_at WHERE ended = 1;

-- The attributes that can be searched for, one row each: texts and numbers as such, a truth as one byte. Of the types that
-- SQLite has, numbers come before texts, and texts before bytes, so that a range of one type is a range of the index.
CREATE TABLE attributes (
    run         INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    value               NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE INDEX attributes_by_value ON attributes (name, value, run);

INSERT OR IGNORE INTO attributes (run, name, value)
SELECT run, key, CASE type WHEN 'true' THEN x'01' WHEN 'false' THEN x'00' ELSE atom END
FROM executions, json_each(CASE WHEN json_valid(attributes) THEN attributes ELSE '{}' END)
WHERE type IN ('text', 'integer', 'real', 'true', 'false') AND key IS NOT NULL
  AND length(CAST(key AS BLOB)) <= 200 AND length(CAST(atom AS BLOB)) <= 1000
  AND instr(key, char(0)) = 0 AND (type <> 'text' OR instr(atom, char(0)) = 0);
