-- What was appended together is one change, and its first event has the number of it: one entry of the index for each
-- append, and none for the events that follow. Those that are there already are a change each.
ALTER TABLE loom.events ALTER COLUMN changed DROP NOT NULL, ALTER COLUMN changed DROP DEFAULT;
DROP INDEX loom.events_changed;
CREATE INDEX events_changed ON loom.events (changed, run) WHERE changed IS NOT NULL;

-- The number of the last change of a run.
CREATE FUNCTION loom.changed(its_run bigint) RETURNS xid8 LANGUAGE sql STABLE AS $$
    SELECT changed FROM loom.executions WHERE run = its_run
$$;

-- As before, but that the number of a change is at its first event alone, and is looked up only where a run has a later one.
CREATE OR REPLACE FUNCTION loom.append_sets(
    given_now bigint, channel text,
    ids text[], runs bigint[], expected bigint[], names text[], sizes bigint[], flows text[], statuses text[],
    started_ats bigint[], updated_ats bigint[], wake_ats bigint[], gate_lists text[], attribute_maps text[], pair_lists text[],
    ends boolean[],
    chains text[], links bigint[], parents text[], drivers text[], lease_mss bigint[], gone text[],
    event_items int[], sequences bigint[], types text[], ats bigint[], payloads bytea[], metadatas bytea[],
    batch jsonb,
    send_items int[], send_chains text[], send_kinds text[], send_keys bytea[], send_ats bigint[], send_bodies bytea[],
    OUT placed bigint[], OUT others jsonb
) LANGUAGE plpgsql AS $$
DECLARE
    plain CONSTANT int := cardinality(ids);
    now CONSTANT bigint := loom.clock_ms(given_now);
    went_on bigint[]; came_late boolean; left_over int[] := '{}'; left_rows jsonb := '[]'; grown text;
BEGIN
    IF channel IS NOT NULL AND NOT loom.is_heard() THEN
        channel := NULL;
    END IF;
    IF plain > 0 THEN
        WITH done AS (
            UPDATE loom.executions AS e SET
                length = e.length + p.size, flow = p.flow, status = p.status, started_at = p.started_at,
                updated_at = p.updated_at, wake_at = p.wake_at, gates = p.gates, attributes = p.attributes,
                ended = p.ended, ended_at = CASE WHEN p.ended THEN coalesce(e.ended_at, p.updated_at) END,
                changed = greatest(e.changed, pg_current_xact_id()),
                appended = jsonb_build_array(jsonb_build_array(p.name, e.length, e.length + p.size)),
                driver = CASE WHEN p.driver IS NULL THEN e.driver ELSE nullif(p.driver, '') END,
                released = e.released AND p.driver IS NULL,
                leased_until = CASE WHEN p.driver IS NULL THEN e.leased_until WHEN p.driver = '' THEN 0
                                    ELSE now + p.lease_ms END,
                called = CASE WHEN p.driver = '' THEN 0 ELSE e.called END,
                called_at = CASE WHEN p.driver = '' THEN NULL ELSE e.called_at END
            FROM unnest(runs, expected, names, sizes, flows, statuses, started_ats, updated_ats, wake_ats, gate_lists,
                        attribute_maps, ends, drivers, lease_mss, gone) WITH ORDINALITY
                AS p(run, expected, name, size, flow, status, started_at, updated_at, wake_at, gates, attributes, ended,
                     driver, lease_ms, gone, place)
            WHERE e.run = p.run AND e.length = p.expected AND e.attributes = p.attributes
              AND (p.gone IS NULL OR e.leased_until <= now OR e.driver IS NULL OR e.driver IN (p.driver, p.gone))
            RETURNING p.place, e.changed > pg_current_xact_id() AS came_late
        )
        SELECT array_agg(done.place), bool_or(done.came_late) INTO went_on, came_late FROM done;
        placed := runs;
        IF cardinality(went_on) IS DISTINCT FROM plain THEN
            WITH begun AS (
                INSERT INTO loom.executions (
                    id, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
                    chain, link, parent, ended, ended_at, driver, leased_until, appended)
                SELECT p.id, p.size, p.flow, p.status, p.started_at, p.updated_at, p.wake_at, p.gates, p.attributes,
                       nullif(p.chain, p.id), p.link, nullif(p.parent, ''), p.ended,
                       CASE WHEN p.ended THEN p.updated_at END, nullif(p.driver, ''),
                       CASE WHEN p.driver <> '' THEN now + p.lease_ms ELSE 0 END,
                       jsonb_build_array(jsonb_build_array(p.name, 0, p.size))
                FROM unnest(ids, runs, expected, names, sizes, flows, statuses, started_ats, updated_ats, wake_ats,
                            gate_lists, attribute_maps, ends, chains, links, parents, drivers, lease_mss)
                    AS p(id, run, expected, name, size, flow, status, started_at, updated_at, wake_at, gates, attributes,
                         ended, chain, link, parent, driver, lease_ms)
                WHERE p.run IS NULL AND p.expected = 0
                  AND NOT EXISTS (SELECT FROM loom.executions AS there WHERE there.id = p.id)
                ON CONFLICT (id) DO NOTHING RETURNING id, run
            )
            SELECT array_agg(CASE WHEN p.place = ANY (went_on) THEN p.run ELSE begun.run END ORDER BY p.place)
            INTO placed FROM unnest(ids, runs) WITH ORDINALITY AS p(id, run, place) LEFT JOIN begun USING (id);
            left_over := ARRAY(
                SELECT p.place::int FROM unnest(placed) WITH ORDINALITY AS p(run, place) WHERE p.run IS NULL ORDER BY p.place);
        END IF;
        INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
        SELECT placed[e.item], e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''),
               CASE WHEN e.sequence > expected[e.item] THEN NULL WHEN came_late THEN loom.changed(placed[e.item])
                    ELSE pg_current_xact_id() END
        FROM unnest(event_items, sequences, types, ats, payloads, metadatas) AS e(item, sequence, type, at, payload, metadata)
        WHERE placed[e.item] IS NOT NULL;
        IF cardinality(array_remove(pair_lists, NULL)) > 0 THEN
            PERFORM loom.write_attributes(placed[p.place], p.pairs::jsonb)
            FROM unnest(runs, pair_lists) WITH ORDINALITY AS p(run, pairs, place)
            WHERE p.pairs IS NOT NULL AND p.run IS NULL AND placed[p.place] IS NOT NULL;
        END IF;
        IF channel IS NOT NULL AND cardinality(left_over) < plain THEN
            grown := (SELECT string_agg(ids[p.place], E'\n') FROM unnest(placed) WITH ORDINALITY AS p(run, place)
                      WHERE p.run IS NOT NULL);
            PERFORM pg_notify(channel, CASE WHEN octet_length(grown) > 7900 THEN '' ELSE grown END);
        END IF;
    END IF;
    IF batch IS NULL AND left_over = '{}' THEN
        RETURN;
    END IF;
    IF left_over <> '{}' THEN
        SELECT jsonb_agg(jsonb_build_object(
            'id', ids[p], 'run', runs[p], 'expected', expected[p], 'name', names[p], 'size', sizes[p], 'flow', flows[p],
            'status', statuses[p], 'started_at', started_ats[p], 'updated_at', updated_ats[p], 'wake_at', wake_ats[p],
            'gates', gate_lists[p], 'attributes', attribute_maps[p], 'pairs', coalesce(pair_lists[p], '[]')::jsonb,
            'chain', chains[p], 'link', links[p],
            'parent', parents[p], 'ended', ends[p], 'consumes', '[]'::jsonb, 'kinds', '[]'::jsonb, 'driver', drivers[p],
            'lease_ms', lease_mss[p], 'takes_over', gone[p] IS NOT NULL, 'gone', coalesce(gone[p], ''),
            'follows', false, 'many', false) ORDER BY p)
        INTO left_rows FROM unnest(left_over) AS p;
    END IF;
    SELECT array_agg(CASE WHEN item > plain THEN item - plain + cardinality(left_over)
                          ELSE array_position(left_over, item) END ORDER BY place),
           array_agg(sequence ORDER BY place), array_agg(type ORDER BY place), array_agg(at ORDER BY place),
           array_agg(payload ORDER BY place), array_agg(metadata ORDER BY place)
    INTO event_items, sequences, types, ats, payloads, metadatas
    FROM unnest(event_items, sequences, types, ats, payloads, metadatas) WITH ORDINALITY
        AS e(item, sequence, type, at, payload, metadata, place)
    WHERE placed[item] IS NULL;
    others := loom.append(
        left_rows || coalesce(batch, '[]'), given_now, channel, event_items, sequences, types, ats, payloads, metadatas,
        ARRAY(SELECT s + cardinality(left_over) FROM unnest(send_items) WITH ORDINALITY AS s(s, place) ORDER BY place),
        send_chains, send_kinds, send_keys, send_ats, send_bodies);
END $$;

-- As before, but that the number of a change is at its first event alone.
CREATE OR REPLACE FUNCTION loom.append(
    batch jsonb, given_now bigint, channel text,
    event_items int[], sequences bigint[], types text[], ats bigint[], payloads bytea[], metadatas bytea[],
    send_items int[], send_chains text[], send_kinds text[], send_keys bytea[], send_ats bigint[], send_bodies bytea[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    items loom.item[] := ARRAY(SELECT i FROM jsonb_populate_recordset(NULL::loom.item, batch) AS i);
    runs bigint[] := array_fill(0::bigint, ARRAY[cardinality(items)]);
    starts CONSTANT bigint[] := ARRAY(SELECT i.expected FROM unnest(items) WITH ORDINALITY AS i ORDER BY i.ordinality);
    refused text[] := '{}'; memos jsonb := '{}'; results jsonb[] := '{}'; grown text[] := '{}';
    item loom.item; stand loom.executions; result jsonb; memo jsonb;
    first int := 1; last int; send int := 1; known bigint; now bigint;
BEGIN
    -- All that is concerned is locked in one order, so that no two batches wait for each other.
    PERFORM FROM loom.executions
    WHERE id = ANY (ARRAY(SELECT i.id FROM unnest(items) AS i UNION SELECT i.chain FROM unnest(items) AS i) || send_chains)
    ORDER BY id FOR UPDATE;
    now := loom.clock_ms(given_now);
    WHILE first <= cardinality(items) LOOP
        last := first;
        WHILE items[last].follows LOOP
            last := last + 1;
        END LOOP;
        result := NULL;
        FOR place IN first..last LOOP
            item := items[place];
            SELECT * INTO stand FROM loom.executions WHERE id = item.id;
            IF place = first AND stand.run IS NOT NULL AND NOT item.id = ANY (refused)
               AND (item.expected <> stand.length OR item.size = 0) THEN
                SELECT (a->>2)::bigint INTO known FROM jsonb_array_elements(stand.appended) AS a
                WHERE a->>0 = item.name AND (a->>1)::bigint = item.expected;
                IF known IS NOT NULL THEN
                    result := jsonb_build_array('appended', stand.run, known);
                    memo := jsonb_build_array(item.name, item.expected, known);
                    memos := memos || jsonb_build_object(item.id, coalesce(memos->item.id, '[]') || jsonb_build_array(memo));
                    EXIT;
                END IF;
            END IF;
            IF item.id = ANY (refused) THEN
                result := jsonb_build_array('conflict', coalesce(stand.length, 0), stand.run);
            ELSE
                result := loom.refusal(item, stand, now);
            END IF;
            EXIT WHEN result IS NOT NULL;
        END LOOP;
        IF result IS NULL THEN
            FOR place IN first..last LOOP
                item := items[place];
                memo := jsonb_build_array(jsonb_build_array(item.name, item.expected, item.expected + item.size));
                IF item.many THEN
                    memo := coalesce(memos->item.id, '[]') || memo;
                    memos := memos || jsonb_build_object(item.id, memo);
                END IF;
                runs[place] := loom.write_head(item, memo, now);
                grown := grown || item.id;
            END LOOP;
            result := jsonb_build_array('appended', runs[first], items[first].expected + items[first].size);
        ELSIF result->>0 <> 'appended' THEN
            FOR place IN first..last LOOP
                refused := refused || items[place].id;
            END LOOP;
        END IF;
        results := results || result;
        WHILE send <= cardinality(send_items) AND send_items[send] = first LOOP
            IF runs[first] > 0 THEN
                PERFORM loom.into_lane(send_chains[send], (SELECT run FROM loom.executions WHERE id = send_chains[send]),
                    send_kinds[send], send_keys[send], send_ats[send], send_bodies[send], true, NULL, now);
            END IF;
            send := send + 1;
        END LOOP;
        first := last + 1;
    END LOOP;
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
    SELECT x.run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''),
           CASE WHEN e.sequence = starts[e.item] THEN x.changed END
    FROM unnest(event_items, sequences, types, ats, payloads, metadatas) AS e(item, sequence, type, at, payload, metadata)
    JOIN loom.executions AS x ON x.run = runs[e.item];
    IF channel IS NOT NULL AND grown <> '{}' THEN
        PERFORM pg_notify(channel, CASE WHEN octet_length(array_to_string(grown, E'\n')) > 7900 THEN ''
                                        ELSE array_to_string(grown, E'\n') END);
    END IF;
    RETURN to_jsonb(results);
END $$;

-- As before; what a fork begins with is one change.
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
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
    SELECT its_run, e.sequence, e.type, e.at, e.payload, e.metadata, CASE WHEN e.sequence = 0 THEN pg_current_xact_id() END
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

-- For a database that was restored from a dump into another server: its changes have the numbers of transactions that this
-- server has not had yet, and readers would wait for them. They are all as old as any, then; readers begin anew.
CREATE FUNCTION loom.renumber_changes() RETURNS void LANGUAGE sql AS $$
    UPDATE loom.executions SET changed = '1';
    UPDATE loom.events SET changed = '1' WHERE changed IS NOT NULL;
$$;
