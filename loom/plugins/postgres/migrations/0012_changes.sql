-- See `EventStore.append`: the numbers of changes come from the rows as they were written, and not from a second look at them.
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
    went_on bigint[]; changes xid8[]; left_over int[] := '{}'; left_rows jsonb := '[]'; grown text;
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
            RETURNING p.place, e.changed
        )
        SELECT array_agg(place ORDER BY place), array_agg(changed ORDER BY place) INTO went_on, changes FROM done;
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
            changes := ARRAY(
                SELECT coalesce(changes[array_position(went_on, p.place)], pg_current_xact_id())
                FROM generate_series(1, plain) AS p(place) ORDER BY p.place);
            left_over := ARRAY(
                SELECT p.place::int FROM unnest(placed) WITH ORDINALITY AS p(run, place) WHERE p.run IS NULL ORDER BY p.place);
        END IF;
        INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
        SELECT placed[e.item], e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''), changes[e.item]
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

-- For a database that was restored from a dump into another server: its changes have the numbers of transactions that this
-- server has not had yet, and readers would wait for them. They are all as old as any, then; readers begin anew.
CREATE FUNCTION loom.renumber_changes() RETURNS void LANGUAGE sql AS $$
    UPDATE loom.executions SET changed = '1';
    UPDATE loom.events SET changed = '1';
$$;
