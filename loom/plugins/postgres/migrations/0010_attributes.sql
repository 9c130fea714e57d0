-- When an execution ended: the last event of the append that ended it. Of those that ended before, the last event there is.
ALTER TABLE loom.executions ADD COLUMN ended_at bigint;
UPDATE loom.executions SET ended_at = updated_at WHERE ended;

-- The attributes that can be searched for, one row each, with its value in the column of its type.
CREATE TABLE loom.attributes (
    run           bigint   NOT NULL,
    name          text     COLLATE "C" NOT NULL,
    text          text     COLLATE "C",
    number        numeric,
    truth         boolean,
    PRIMARY KEY (run, name)
);

CREATE INDEX attributes_by_text ON loom.attributes (name, text, run) WHERE text IS NOT NULL;
CREATE INDEX attributes_by_number ON loom.attributes (name, number, run) WHERE number IS NOT NULL;
CREATE INDEX attributes_by_truth ON loom.attributes (name, truth, run) WHERE truth IS NOT NULL;

-- Writes the attributes of a run, given as pairs of a name and a text, number or truth.
CREATE FUNCTION loom.write_attributes(its_run bigint, pairs jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO loom.attributes (run, name, text, number, truth)
    SELECT its_run, pair->>0,
           CASE jsonb_typeof(pair->1) WHEN 'string' THEN pair->>1 END,
           CASE jsonb_typeof(pair->1) WHEN 'number' THEN (pair->1)::numeric END,
           CASE jsonb_typeof(pair->1) WHEN 'boolean' THEN (pair->1)::boolean END
    FROM jsonb_array_elements(pairs) AS pair
$$;

DO $$
DECLARE
    e record;
BEGIN
    FOR e IN SELECT run, attributes FROM loom.executions WHERE attributes <> '{}' LOOP
        BEGIN
            PERFORM loom.write_attributes(e.run, (
                SELECT coalesce(jsonb_agg(jsonb_build_array(key, value)), '[]') FROM jsonb_each(e.attributes::jsonb)
                WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean')
                  AND octet_length(key) <= 200 AND octet_length(value #>> '{}') <= 1000));
        EXCEPTION WHEN data_exception THEN NULL;  -- a row is but a cache, and this one is damaged
        END;
    END LOOP;
END $$;

-- The number of a change is that of the transaction that made it, or that of an earlier change of the run, where that is
-- greater: so the numbers of a run never fall, though transactions are numbered before they wait for each other. What has a
-- number below that of the oldest transaction under way is all there will ever be of it. See `ChangeFeed`.
ALTER TABLE loom.executions ADD COLUMN changed xid8 NOT NULL DEFAULT '1';
ALTER TABLE loom.executions ALTER COLUMN changed SET DEFAULT pg_current_xact_id();
ALTER TABLE loom.events ADD COLUMN changed xid8 NOT NULL DEFAULT '1';
ALTER TABLE loom.events ALTER COLUMN changed SET DEFAULT pg_current_xact_id();
CREATE INDEX events_changed ON loom.events (changed, run);

-- How many gates are open; none where that is damaged.
CREATE FUNCTION loom.gates_open(gates text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN json_array_length(gates::json);
EXCEPTION WHEN data_exception THEN
    RETURN 0;
END $$;

ALTER TYPE loom.item ADD ATTRIBUTE pairs jsonb;

-- Writes the head of an item that is not refused, and returns its run.
CREATE OR REPLACE FUNCTION loom.write_head(item loom.item, memo jsonb, now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    its_run bigint := item.run; attributes_were text := '{}';
BEGIN
    IF its_run IS NULL THEN
        INSERT INTO loom.executions (
            id, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
            chain, link, parent, ended, ended_at, driver, leased_until, appended)
        VALUES (
            item.id, item.size, item.flow, item.status, item.started_at, item.updated_at, item.wake_at, item.gates,
            item.attributes, nullif(item.chain, item.id), item.link, nullif(item.parent, ''), item.ended,
            CASE WHEN item.ended THEN item.updated_at END,
            nullif(item.driver, ''), CASE WHEN item.driver <> '' THEN now + item.lease_ms ELSE 0 END, memo)
        ON CONFLICT (id) DO NOTHING RETURNING run INTO its_run;
        IF its_run IS NULL THEN
            RAISE EXCEPTION 'the execution was begun meanwhile' USING ERRCODE = 'serialization_failure';
        END IF;
    ELSE
        SELECT attributes INTO attributes_were FROM loom.executions WHERE run = its_run;
        IF item.driver IS NULL THEN
            UPDATE loom.executions SET
                length = length + item.size, flow = item.flow, status = item.status, started_at = item.started_at,
                updated_at = item.updated_at, wake_at = item.wake_at, gates = item.gates, attributes = item.attributes,
                ended = item.ended, ended_at = CASE WHEN item.ended THEN coalesce(ended_at, item.updated_at) END,
                appended = memo, changed = greatest(changed, pg_current_xact_id())
            WHERE run = its_run;
        ELSE
            UPDATE loom.executions SET
                length = length + item.size, flow = item.flow, status = item.status, started_at = item.started_at,
                updated_at = item.updated_at, wake_at = item.wake_at, gates = item.gates, attributes = item.attributes,
                ended = item.ended, ended_at = CASE WHEN item.ended THEN coalesce(ended_at, item.updated_at) END,
                appended = memo, changed = greatest(changed, pg_current_xact_id()),
                driver = nullif(item.driver, ''), released = false,
                leased_until = CASE WHEN item.driver = '' THEN 0 ELSE now + item.lease_ms END,
                called = CASE WHEN item.driver = '' THEN 0 ELSE called END,
                called_at = CASE WHEN item.driver = '' THEN NULL ELSE called_at END
            WHERE run = its_run;
        END IF;
    END IF;
    IF item.attributes <> attributes_were THEN
        IF attributes_were <> '{}' THEN
            DELETE FROM loom.attributes WHERE run = its_run;
        END IF;
        PERFORM loom.write_attributes(its_run, item.pairs);
    END IF;
    IF item.consumes <> '{}' THEN
        UPDATE loom.requests SET consumed = true
        WHERE run = coalesce(item.lane, its_run) AND number = ANY (item.consumes);
    END IF;
    RETURN its_run;
END $$;

-- See `EventStore.append`. The events of an item are those with its place in `event_items`; what an item and those that go
-- with it send has the place of the first of them in `send_items`. A channel is told which logs have grown.
CREATE OR REPLACE FUNCTION loom.append(
    batch jsonb, given_now bigint, channel text,
    event_items int[], sequences bigint[], types text[], ats bigint[], payloads bytea[], metadatas bytea[],
    send_items int[], send_chains text[], send_kinds text[], send_keys bytea[], send_ats bigint[], send_bodies bytea[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    items loom.item[] := ARRAY(SELECT i FROM jsonb_populate_recordset(NULL::loom.item, batch) AS i);
    runs bigint[] := array_fill(0::bigint, ARRAY[cardinality(items)]);
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
    SELECT x.run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''), x.changed
    FROM unnest(event_items, sequences, types, ats, payloads, metadatas) AS e(item, sequence, type, at, payload, metadata)
    JOIN loom.executions AS x ON x.run = runs[e.item];
    IF channel IS NOT NULL AND grown <> '{}' THEN
        PERFORM pg_notify(channel, CASE WHEN octet_length(array_to_string(grown, E'\n')) > 7900 THEN ''
                                        ELSE array_to_string(grown, E'\n') END);
    END IF;
    RETURN to_jsonb(results);
END $$;

-- The same, with the attributes that can be searched for: pairs as JSON, NULL of an item that has none.
DROP FUNCTION loom.append_sets;

-- See `EventStore.append`. A plain item has a place in `ids` and in what lies beside it, and an execution to itself; its run is
-- NULL when it begins one, and `gone` when it takes nothing over. The items of `batch` follow; `event_items` counts them on.
-- `placed` is the run of each plain item that was written as it was asked, NULL of those whose results begin `others`.
CREATE FUNCTION loom.append_sets(
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
    went_on bigint[]; left_over int[] := '{}'; left_rows jsonb := '[]'; grown text;
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
            RETURNING p.place
        )
        SELECT array_agg(place) INTO went_on FROM done;
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
        SELECT x.run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''), x.changed
        FROM unnest(event_items, sequences, types, ats, payloads, metadatas) AS e(item, sequence, type, at, payload, metadata)
        JOIN loom.executions AS x ON x.run = placed[e.item];
        PERFORM loom.write_attributes(placed[p.place], p.pairs::jsonb)
        FROM unnest(runs, pair_lists) WITH ORDINALITY AS p(run, pairs, place)
        WHERE p.pairs IS NOT NULL AND p.run IS NULL AND placed[p.place] IS NOT NULL;
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

-- See `EventFork.fork`: a log that begins with a copy of another. One function, so that it is one round trip.
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
    PERFORM loom.write_attributes(its_run, head->'pairs');
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata)
    SELECT its_run, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, '')
    FROM unnest(sequences, types, ats, payloads, metadatas) AS e(sequence, type, at, payload, metadata);
    RETURN jsonb_build_array('appended', fresh.length, its_run);
END $$;
