-- What people may read with SQL: docs/guide/sql.md promises these names and columns, and nothing of the tables below them. Times
-- are UTC text to the millisecond, as SQLite's own functions take it; those that end in `_ms` are as `--json` prints them.
DROP VIEW IF EXISTS loom_runs;
CREATE VIEW loom_runs AS
SELECT e.id, e.flow, e.status,
       e.ended = 0 AND EXISTS (
           SELECT 1 FROM requests AS r
           WHERE r.run = CASE WHEN e.chain IS NULL THEN e.run
                         ELSE (SELECT b.run FROM executions AS b WHERE b.id = e.chain) END
             AND r.key <> '' AND r.key = CASE e.link WHEN 1 THEN 'cancel' ELSE e.link || ':cancel' END) AS cancelling,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.updated_at / 1000.0, 'unixepoch') AS updated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.wake_at / 1000.0, 'unixepoch') AS wake_at,
       e.length,
       CASE WHEN NOT json_valid(e.gates) THEN 0 WHEN json_type(e.gates) = 'array' THEN json_array_length(e.gates)
            ELSE 0 END AS gates,
       e.attributes, e.parent, coalesce(e.chain, e.id) AS chain, e.link,
       NOT EXISTS (
           SELECT 1 FROM executions AS later
           WHERE later.chain = coalesce(e.chain, e.id) AND later.link > e.link) AS is_last,
       source.id AS fork_of, f.through AS fork_sequence, e.driver,
       CASE WHEN e.driver IS NOT NULL
            THEN strftime('%Y-%m-%dT%H:%M:%fZ', e.leased_until / 1000.0, 'unixepoch') END AS leased_until,
       e.started_at AS started_ms, e.updated_at AS updated_ms, e.ended_at AS ended_ms, e.wake_at AS wake_ms, e.run AS life
FROM executions AS e
LEFT JOIN forks AS f ON f.run = e.run
LEFT JOIN executions AS source ON source.run = f.source;

DROP VIEW IF EXISTS loom_events;
CREATE VIEW loom_events AS
SELECT e.id AS execution_id, v.sequence, v.type,
       strftime('%Y-%m-%dT%H:%M:%fZ', v.at / 1000.0, 'unixepoch') AS at,
       CAST(v.payload AS TEXT) AS payload, CAST(v.metadata AS TEXT) AS metadata, v.at AS at_ms
FROM executions AS e JOIN events AS v ON v.run = e.run;

DROP VIEW IF EXISTS loom_attributes;
CREATE VIEW loom_attributes AS
SELECT e.id AS execution_id, a.name,
       CASE WHEN typeof(a.value) = 'text' THEN a.value END AS text,
       CASE WHEN typeof(a.value) IN ('integer', 'real') THEN a.value END AS number,
       CASE WHEN typeof(a.value) = 'blob' THEN a.value = x'01' END AS truth
FROM executions AS e JOIN attributes AS a ON a.run = e.run;

DROP VIEW IF EXISTS loom_gates;
CREATE VIEW loom_gates AS
SELECT e.id AS execution_id, e.flow, json_extract(g.value, '$.gate') AS gate,
       strftime('%Y-%m-%dT%H:%M:%fZ', (json_extract(g.value, '$.opened_at')) / 1000.0, 'unixepoch') AS opened_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', (json_extract(g.value, '$.due_at')) / 1000.0, 'unixepoch') AS due_at,
       json_extract(g.value, '$.in_doubt') AS in_doubt, json_extract(g.value, '$.key') AS key,
       json_extract(g.value, '$.opened_at') AS opened_ms, json_extract(g.value, '$.due_at') AS due_ms
FROM executions AS e
JOIN json_each(CASE WHEN json_valid(e.gates) THEN e.gates ELSE '[]' END) AS g
WHERE e.gates <> '[]' AND g.type = 'object';

DROP VIEW IF EXISTS loom_read_models;
CREATE VIEW loom_read_models AS
SELECT e.id AS execution_id, m.model, m.version, m.sequence, CAST(m.body AS TEXT) AS body
FROM executions AS e JOIN model_rows AS m ON m.run = e.run WHERE m.body IS NOT NULL;
