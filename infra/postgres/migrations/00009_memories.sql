-- +goose Up

-- What agents and users want to know in later sessions. A memory belongs to a
-- user; owner is a word of the client's.
CREATE TABLE memories (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id        text NOT NULL REFERENCES users (id),
    type           text NOT NULL CHECK (type IN ('feedback', 'experience')),
    content        text NOT NULL CHECK (length(content) BETWEEN 1 AND 500),
    skill_name     text,
    record_type    text CHECK (record_type IN ('memory', 'skill_comment')),
    scope          text,
    owner          text,
    topic          text,
    external_id    text,
    superseded_by  bigint REFERENCES memories (id) ON DELETE SET NULL,
    write_reason   text,
    source_session text NOT NULL DEFAULT '',
    call_id        text UNIQUE, -- the tool call that wrote it
    hit_count      bigint NOT NULL DEFAULT 0,
    last_hit_at    timestamptz,
    disabled       boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz,
    -- Words as written and by their English stems: other languages match by the former.
    words          tsvector GENERATED ALWAYS AS (
        to_tsvector('simple', coalesce(topic, '') || ' ' || content) || to_tsvector('english', coalesce(topic, '') || ' ' || content)) STORED
);
CREATE INDEX memories_newest ON memories (user_id, id DESC);
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_words ON memories USING gin (words);

-- +goose Down
SELECT 1;
