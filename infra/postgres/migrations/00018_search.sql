-- +goose Up

-- For counting a user's sessions: entries of one value are packed, a tenth of the pages of the list's own index. The
-- condition on the owner keeps it from queries that want an order: only one that repeats it can use it.
CREATE INDEX sessions_counted ON sessions (owner_id) WHERE deleted_at IS NULL AND owner_id <> '';
-- A prefix of template ids is a range of bytes.
CREATE INDEX sessions_of_template ON sessions (owner_id, template_id COLLATE "C", is_pinned, id) WHERE deleted_at IS NULL AND template_id IS NOT NULL;
CREATE INDEX sessions_deleted ON sessions (owner_id, id) WHERE deleted_at IS NOT NULL;

-- The texts that a user can search, folded to lower case: the intents of sessions
-- (id: the session's) and the text of their turns (id: the entry's). Triggers keep
-- them; a row goes with its session.
CREATE TABLE search_texts (
    session_id text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id         text NOT NULL,
    owner_id   text NOT NULL,
    folded     text NOT NULL,
    indexed    boolean NOT NULL DEFAULT false, -- search_grams holds it; else a search reads the text
    PRIMARY KEY (session_id, id)
);
CREATE INDEX search_owner ON search_texts (owner_id, indexed);

-- fold_case folds beyond ASCII whatever the database's own locale is.
CREATE FUNCTION fold_case(given text) RETURNS text IMMUTABLE PARALLEL SAFE STRICT LANGUAGE sql AS
    $$ SELECT lower(given COLLATE "und-x-icu") $$;

-- grams gives every three characters that follow each other in a text as a number
-- of its owner, and every two beyond ASCII, where words are short.
-- +goose StatementBegin
CREATE FUNCTION grams(owner text, folded text) RETURNS bigint[] IMMUTABLE PARALLEL SAFE STRICT LANGUAGE plpgsql AS $$
DECLARE
    c     text[]   := string_to_array(folded, NULL);
    seed  bigint   := hashtextextended(owner, 0);
    three bigint[] := ARRAY(SELECT hashtextextended(x || y || z, seed) FROM unnest(c, c[2:], c[3:]) AS t (x, y, z) WHERE z IS NOT NULL);
BEGIN
    IF octet_length(folded) = length(folded) THEN
        RETURN three;
    END IF;
    RETURN three || ARRAY(
        SELECT hashtextextended(x || y, seed) FROM unnest(c, c[2:]) AS t (x, y)
        WHERE  y IS NOT NULL AND octet_length(x) > 1 AND octet_length(y) > 1);
END $$;
-- +goose StatementEnd

-- What search_text says is searched from now on; it reaches the index later, many
-- rows at once, so that a chat does not wait for it.
-- +goose StatementBegin
CREATE FUNCTION search_text(session text, entry text, owner text, said text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO search_texts (session_id, id, owner_id, folded) VALUES (session, entry, owner, fold_case(said))
    ON CONFLICT (session_id, id) DO UPDATE SET folded = excluded.folded, indexed = false
    WHERE search_texts.folded <> excluded.folded $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION search_intent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM search_text(NEW.id, NEW.id, NEW.owner_id, NEW.intent);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER search_new_intent AFTER INSERT ON sessions FOR EACH ROW WHEN (NEW.intent <> '') EXECUTE FUNCTION search_intent();
CREATE TRIGGER search_changed_intent AFTER UPDATE OF intent ON sessions FOR EACH ROW WHEN (NEW.intent <> OLD.intent) EXECUTE FUNCTION search_intent();

-- said gives the text blocks of a turn; no word goes from one block to the next.
CREATE FUNCTION said(blocks jsonb) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
    $$ SELECT string_agg(b ->> 'content', chr(31)) FROM jsonb_array_elements(blocks) b WHERE b ->> 'type' = 'text' AND b ->> 'content' <> '' $$;

-- +goose StatementBegin
CREATE FUNCTION search_turn() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    words text := said(NEW.blocks);
BEGIN
    IF words IS NOT NULL THEN
        PERFORM search_text(NEW.session_id, NEW.id, (SELECT owner_id FROM sessions WHERE id = NEW.session_id), words);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER search_turn AFTER INSERT OR UPDATE OF status, blocks ON entries FOR EACH ROW
    WHEN (NEW.kind = 'message' AND NEW.role IN ('user', 'assistant') AND NEW.status <> 'streaming') EXECUTE FUNCTION search_turn();

INSERT INTO search_texts
    SELECT id, id, owner_id, fold_case(intent), true FROM sessions WHERE intent <> ''
    UNION ALL
    SELECT e.session_id, e.id, s.owner_id, fold_case(said(e.blocks)), true FROM entries e JOIN sessions s ON s.id = e.session_id
    WHERE  e.kind = 'message' AND e.role IN ('user', 'assistant') AND e.status <> 'streaming' AND said(e.blocks) IS NOT NULL;
CREATE INDEX search_grams ON search_texts USING gin (grams(owner_id, folded)) WITH (gin_pending_list_limit = 512) WHERE indexed; -- kB: searches read that list whole
ALTER INDEX search_grams ALTER COLUMN 1 SET STATISTICS 0; -- ANALYZE would cut up thousands of texts, for no use

-- +goose Down
SELECT 1;
