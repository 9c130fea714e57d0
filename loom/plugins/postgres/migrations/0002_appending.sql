-- What a transaction changes is decided here, beside the rows, so that a batch is one round trip. The rules are those of
-- `loom.spi.event_store`; that they come to what the store in memory comes to is tested with random writes.

-- An item of a batch. One that `follows` goes with the item after it, the first of the next link of its chain.
CREATE TYPE loom.item AS (
    id text, run bigint, expected bigint, name text, size bigint,
    flow text, status text, started_at bigint, updated_at bigint, wake_at bigint, gates text, attributes text,
    chain text, link bigint, parent text, ended boolean,
    lane bigint, consumes bigint[], above bigint, kinds text[],
    driver text, lease_ms bigint, takes_over boolean, gone text, follows boolean, many boolean
);

-- Puts a request into the lane of a chain, whose first link the caller has locked, and calls the driver of the last link.
CREATE FUNCTION loom.into_lane(
    of_chain text, life bigint, of_kind text, of_key bytea, at_ms bigint, of_body bytea, while_open boolean,
    by_token bytea, now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    first loom.executions; tip loom.executions; taken loom.requests; next bigint;
BEGIN
    SELECT * INTO first FROM loom.executions WHERE id = of_chain;
    IF first.run IS NULL OR first.chain IS NOT NULL OR first.run <> life THEN
        RETURN NULL;
    END IF;
    IF of_key <> '' THEN
        SELECT * INTO taken FROM loom.requests WHERE run = first.run AND key = of_key AND key <> '';
        IF taken.number IS NOT NULL THEN
            RETURN jsonb_build_array('taken', taken.number, NOT taken.consumed);
        END IF;
    END IF;
    SELECT * INTO tip FROM loom.executions WHERE chain = of_chain ORDER BY link DESC LIMIT 1 FOR UPDATE;
    IF tip.run IS NULL THEN
        tip := first;
    END IF;
    IF while_open AND tip.ended THEN
        RETURN jsonb_build_array('closed', tip.status);
    END IF;
    SELECT coalesce(max(number), 0) + 1 INTO next FROM loom.requests WHERE run = first.run;
    INSERT INTO loom.requests (run, number, kind, key, at, body, token)
    VALUES (first.run, next, of_kind, of_key, at_ms, of_body, by_token);
    UPDATE loom.executions SET called = next, called_at = coalesce(called_at, now) WHERE run = tip.run;
    RETURN jsonb_build_array('number', next);
END $$;

-- See `RequestLane.insert`. With `again`, the answer to an earlier try with the same token was lost.
CREATE FUNCTION loom.insert_request(
    of_chain text, life bigint, of_kind text, of_key bytea, at_ms bigint, of_body bytea, while_open boolean,
    by_token bytea, again boolean, given_now bigint
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    found_number bigint;
BEGIN
    PERFORM FROM loom.executions WHERE id = of_chain FOR UPDATE;
    IF again THEN
        SELECT number INTO found_number FROM loom.requests WHERE run = life AND token = by_token;
        IF found_number IS NOT NULL THEN
            RETURN jsonb_build_array('number', found_number);
        END IF;
    END IF;
    RETURN loom.into_lane(
        of_chain, life, of_kind, of_key, at_ms, of_body, while_open, by_token, loom.clock_ms(given_now));
END $$;

-- Why an item is refused, NULL when it is not.
CREATE FUNCTION loom.refusal(item loom.item, stand loom.executions, now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    pending bigint;
BEGIN
    IF item.expected <> coalesce(stand.length, 0) OR item.run IS DISTINCT FROM stand.run THEN
        RETURN jsonb_build_array('conflict', coalesce(stand.length, 0), stand.run);
    END IF;
    IF item.takes_over AND stand.leased_until > now AND stand.driver IS NOT NULL
       AND stand.driver <> coalesce(item.driver, '') AND stand.driver <> item.gone THEN
        RETURN jsonb_build_array('leased', stand.driver, stand.leased_until - now);
    END IF;
    IF item.above IS NOT NULL THEN
        SELECT count(*) INTO pending FROM loom.requests
        WHERE run = coalesce(item.lane, stand.run) AND NOT consumed AND number > item.above
          AND number <> ALL (item.consumes) AND (item.kinds = '{}' OR kind = ANY (item.kinds));
        IF pending > 0 THEN
            RETURN jsonb_build_array('pending', pending);
        END IF;
    END IF;
    RETURN NULL;
END $$;

-- Writes the head of an item that is not refused, and returns its run.
CREATE FUNCTION loom.write_head(item loom.item, memo jsonb, now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    its_run bigint := item.run;
BEGIN
    IF its_run IS NULL THEN
        INSERT INTO loom.executions (
            id, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
            chain, link, parent, ended, driver, leased_until, appended)
        VALUES (
            item.id, item.size, item.flow, item.status, item.started_at, item.updated_at, item.wake_at, item.gates,
            item.attributes, nullif(item.chain, item.id), item.link, nullif(item.parent, ''), item.ended,
            nullif(item.driver, ''), CASE WHEN item.driver <> '' THEN now + item.lease_ms ELSE 0 END, memo)
        ON CONFLICT (id) DO NOTHING RETURNING run INTO its_run;
        IF its_run IS NULL THEN
            RAISE EXCEPTION 'the execution was begun meanwhile' USING ERRCODE = 'serialization_failure';
        END IF;
    ELSIF item.driver IS NULL THEN
        UPDATE loom.executions SET
            length = length + item.size, flow = item.flow, status = item.status, started_at = item.started_at,
            updated_at = item.updated_at, wake_at = item.wake_at, gates = item.gates, attributes = item.attributes,
            ended = item.ended, appended = memo
        WHERE run = its_run;
    ELSE
        UPDATE loom.executions SET
            length = length + item.size, flow = item.flow, status = item.status, started_at = item.started_at,
            updated_at = item.updated_at, wake_at = item.wake_at, gates = item.gates, attributes = item.attributes,
            ended = item.ended, appended = memo, driver = nullif(item.driver, ''), released = false,
            leased_until = CASE WHEN item.driver = '' THEN 0 ELSE now + item.lease_ms END,
            called = CASE WHEN item.driver = '' THEN 0 ELSE called END,
            called_at = CASE WHEN item.driver = '' THEN NULL ELSE called_at END
        WHERE run = its_run;
    END IF;
    IF item.consumes <> '{}' THEN
        UPDATE loom.requests SET consumed = true
        WHERE run = coalesce(item.lane, its_run) AND number = ANY (item.consumes);
    END IF;
    RETURN its_run;
END $$;

-- See `EventStore.append`. The events of an item are those with its place in `event_items`; what an item and those that go
-- with it send has the place of the first of them in `send_items`. A channel is told which logs have grown.
CREATE FUNCTION loom.append(
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
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata)
    SELECT runs[e.item], e.sequence, e.type, e.at, e.payload, nullif(e.metadata, '')
    FROM unnest(event_items, sequences, types, ats, payloads, metadatas) AS e(item, sequence, type, at, payload, metadata)
    WHERE runs[e.item] > 0;
    IF channel IS NOT NULL AND grown <> '{}' THEN
        PERFORM pg_notify(channel, CASE WHEN octet_length(array_to_string(grown, E'\n')) > 7900 THEN ''
                                        ELSE array_to_string(grown, E'\n') END);
    END IF;
    RETURN to_jsonb(results);
END $$;
