-- As before; but where a log was compacted only what comes after *base* must be there whole, -1 for all of it. What is new is 'begun'.
DROP FUNCTION loom.fork(text, bigint, bigint, jsonb, bigint[], text[], bigint[], bytea[], bytea[]);
CREATE FUNCTION loom.fork(
    from_id text, from_run bigint, through bigint, base bigint, head jsonb,
    sequences bigint[], types text[], ats bigint[], payloads bytea[], metadatas bytea[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    fresh loom.executions := jsonb_populate_record(NULL::loom.executions, head);
    taken loom.executions; its_run bigint; origin bigint; first_of_all bigint; copied bigint;
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
    SELECT run INTO origin FROM loom.executions WHERE id = from_id AND run = from_run;
    SELECT least(min(e.sequence), sequences[1]) INTO first_of_all FROM loom.events AS e WHERE e.run = origin;
    WITH done AS (
        INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
        SELECT its_run, e.sequence, e.type, e.at, e.payload, e.metadata,
               CASE WHEN e.sequence = first_of_all THEN pg_current_xact_id() END
        FROM loom.events AS e WHERE e.run = origin AND e.sequence <= through
        RETURNING sequence
    )
    SELECT count(*) FILTER (WHERE sequence > base) INTO copied FROM done;
    IF origin IS NULL OR copied <> through - base THEN
        DELETE FROM loom.events WHERE run = its_run;
        DELETE FROM loom.executions WHERE run = its_run;
        RETURN jsonb_build_array('lacking');
    END IF;
    INSERT INTO loom.forks (run, source, through) VALUES (its_run, from_run, through);
    PERFORM loom.write_attributes(its_run, head->'pairs');
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
    SELECT its_run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''),
           CASE WHEN e.sequence = first_of_all THEN pg_current_xact_id() END
    FROM unnest(sequences, types, ats, payloads, metadatas) AS e(sequence, type, at, payload, metadata);
    RETURN jsonb_build_array('begun', fresh.length, its_run);
END $$;
