-- Which run is a fork of which: by the incarnations of both, and the last event that they share.
CREATE TABLE loom.forks (
    run           bigint PRIMARY KEY,
    source        bigint NOT NULL,
    through       bigint NOT NULL
);

CREATE INDEX forks_of_run ON loom.forks (source, run);

-- What the names of a family stood for, move by move; `run` is the incarnation of the run that is a fork of none.
CREATE TABLE loom.refs (
    run           bigint NOT NULL,
    name          bytea  NOT NULL,
    number        bigint NOT NULL,
    execution_id  text   NOT NULL,
    at            bigint NOT NULL,
    principal     bytea  NOT NULL,
    reason        bytea  NOT NULL,
    PRIMARY KEY (run, name, number)
);

-- As before, and notes whose fork it is.
CREATE OR REPLACE FUNCTION loom.fork(
    from_id text, from_run bigint, through bigint, head jsonb,
    sequences bigint[], types text[], ats bigint[], payloads bytea[], metadatas bytea[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    fresh loom.executions := jsonb_populate_record(NULL::loom.executions, head);
    taken loom.executions; its_run bigint; copied bigint;
BEGIN
    INSERT INTO loom.executions (
        id, length, flow, status, started_at, updated_at, wake_at, gates, attributes, link, parent, ended, appended)
    VALUES (
        fresh.id, fresh.length, fresh.flow, fresh.status, fresh.started_at, fresh.updated_at, fresh.wake_at, fresh.gates,
        fresh.attributes, 1, fresh.parent, false, fresh.appended)
    ON CONFLICT (id) DO NOTHING RETURNING run INTO its_run;
    IF its_run IS NULL THEN
        SELECT * INTO taken FROM loom.executions WHERE id = fresh.id;
        RETURN jsonb_build_array(
            CASE WHEN taken.appended = fresh.appended THEN 'appended' ELSE 'conflict' END, taken.length, taken.run);
    END IF;
    -- No life of an execution but the present one has a row.
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata)
    SELECT its_run, e.sequence, e.type, e.at, e.payload, e.metadata
    FROM loom.events AS e
    WHERE e.run = (SELECT run FROM loom.executions WHERE id = from_id AND run = from_run) AND e.sequence <= through;
    GET DIAGNOSTICS copied = ROW_COUNT;
    IF copied <> through + 1 THEN
        DELETE FROM loom.events WHERE run = its_run;
        DELETE FROM loom.executions WHERE run = its_run;
        RETURN jsonb_build_array('lacking');
    END IF;
    INSERT INTO loom.forks (run, source, through) VALUES (its_run, from_run, through);
    PERFORM loom.write_attributes(its_run, head->'pairs');
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata)
    SELECT its_run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, '')
    FROM unnest(sequences, types, ats, payloads, metadatas) AS e(sequence, type, at, payload, metadata);
    RETURN jsonb_build_array('appended', fresh.length, its_run);
END $$;
