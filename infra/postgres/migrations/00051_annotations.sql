-- +goose Up

-- Notes of people on turns, tool calls and files.
CREATE TABLE annotations (
    id          text PRIMARY KEY,
    session_id  text NOT NULL REFERENCES sessions (id),
    payload_id  text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('rating', 'label', 'comment', 'correction', 'bookmark')),
    target      jsonb,
    value       jsonb,
    text        text,
    labels      text[] NOT NULL DEFAULT '{}',
    author_id   text NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz
);
CREATE INDEX annotations_payload ON annotations (payload_id, id);
CREATE INDEX annotations_session ON annotations (session_id);

-- +goose Down
SELECT 1;
