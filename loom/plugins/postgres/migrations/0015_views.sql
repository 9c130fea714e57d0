-- What people may read with SQL: docs/guide/sql.md promises these names and columns, and nothing of the tables below them. A column
-- keeps its name, place and type for ever, and more may follow the last. All views join, since one of a single table could be written to.
CREATE OR REPLACE FUNCTION loom.time_of(ms bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN ms BETWEEN -62135596800000 AND 253402300799999
           THEN timestamptz '1970-01-01 00:00:00+00' + ms * interval '1 millisecond' END
$$;

-- What cannot be read is NULL: one row that is damaged takes nothing away from the others.
CREATE OR REPLACE FUNCTION loom.jsonb_of(written bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(written, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE OR REPLACE VIEW loom.loom_runs AS
SELECT e.id, e.flow, e.status,
       NOT e.ended AND EXISTS (
           SELECT FROM loom.requests AS r
           WHERE r.run = CASE WHEN e.chain IS NULL THEN e.run
                         ELSE (SELECT b.run FROM loom.executions AS b WHERE b.id = e.chain) END
             AND r.key <> ''
             AND r.key = convert_to(CASE e.link WHEN 1 THEN '' ELSE e.link || ':' END || 'cancel', 'UTF8')) AS cancelling,
       loom.time_of(e.started_at) AS started_at, loom.time_of(e.updated_at) AS updated_at,
       loom.time_of(e.ended_at) AS ended_at, loom.time_of(e.wake_at) AS wake_at,
       e.length, loom.gates_open(e.gates) AS gates, loom.jsonb_of(convert_to(e.attributes, 'UTF8')) AS attributes,
       e.parent, coalesce(e.chain, e.id) AS chain, e.link,
       NOT EXISTS (
           SELECT FROM loom.executions AS later
           WHERE later.chain = coalesce(e.chain, e.id) AND later.link > e.link) AS is_last,
       source.id AS fork_of, f.through AS fork_sequence, e.driver,
       CASE WHEN e.driver IS NOT NULL THEN loom.time_of(e.leased_until) END AS leased_until,
       e.started_at AS started_ms, e.updated_at AS updated_ms, e.ended_at AS ended_ms, e.wake_at AS wake_ms, e.run AS life
FROM loom.executions AS e
LEFT JOIN loom.forks AS f ON f.run = e.run
LEFT JOIN loom.executions AS source ON source.run = f.source;

CREATE OR REPLACE VIEW loom.loom_events AS
SELECT e.id AS execution_id, v.sequence, v.type, loom.time_of(v.at) AS at,
       loom.jsonb_of(v.payload) AS payload, loom.jsonb_of(v.metadata) AS metadata, v.at AS at_ms
FROM loom.executions AS e JOIN loom.events AS v ON v.run = e.run;

CREATE OR REPLACE VIEW loom.loom_attributes AS
SELECT e.id AS execution_id, a.name, a.text, a.number, a.truth
FROM loom.executions AS e JOIN loom.attributes AS a ON a.run = e.run;

CREATE OR REPLACE VIEW loom.loom_gates AS
SELECT e.id AS execution_id, e.flow, g->>'gate' AS gate,
       loom.time_of(times.opened) AS opened_at, loom.time_of(times.due) AS due_at,
       g->'in_doubt' = 'true' AS in_doubt, g->>'key' AS key, times.opened AS opened_ms, times.due AS due_ms
FROM loom.executions AS e
CROSS JOIN LATERAL (SELECT loom.jsonb_of(convert_to(e.gates, 'UTF8')) AS gates) AS told
CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(told.gates) WHEN 'array' THEN told.gates ELSE '[]' END) AS g
CROSS JOIN LATERAL (
    SELECT CASE jsonb_typeof(g->'opened_at') WHEN 'number' THEN (g->'opened_at')::bigint END AS opened,
           CASE jsonb_typeof(g->'due_at') WHEN 'number' THEN (g->'due_at')::bigint END AS due) AS times
WHERE e.gates <> '[]' AND jsonb_typeof(g) = 'object';

CREATE OR REPLACE VIEW loom.loom_read_models AS
SELECT e.id AS execution_id, m.model, m.version, m.sequence, loom.jsonb_of(m.body) AS body
FROM loom.executions AS e JOIN loom.model_rows AS m ON m.run = e.run WHERE m.body IS NOT NULL;
