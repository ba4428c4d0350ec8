-- +goose Up

-- What the servers of models do not take, as their answers showed. What was learnt of images
-- and tool servers is of one session. Rows are valid for a day, so that a server that was
-- upgraded is asked again.
CREATE TABLE model_limits (
    model      text        NOT NULL,
    session_id text        REFERENCES sessions (id) ON DELETE CASCADE,
    kind       text        NOT NULL CHECK (kind IN ('field', 'image', 'tool_server', 'prompt')),
    subject    text        NOT NULL, -- a part of requests, the name of an image, a tool server; '': prompts
    digest     text        NOT NULL DEFAULT '', -- of the tools of the tool server
    reported   bigint, -- tokens of a prompt that the server cut
    estimated  bigint,
    learned_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((kind IN ('image', 'tool_server')) = (session_id IS NOT NULL))
);
CREATE UNIQUE INDEX model_limits_one ON model_limits (session_id, model, kind, subject, digest) NULLS NOT DISTINCT;

INSERT INTO model_limits (model, session_id, kind, subject, learned_at)
SELECT model, session_id, 'image', image, refused_at FROM refused_images;

INSERT INTO model_limits (model, session_id, kind, subject, digest, learned_at)
SELECT model, session_id, 'tool_server', server, tools, refused_at FROM refused_tool_servers;

DROP TABLE refused_images;
DROP TABLE refused_tool_servers;

ALTER TABLE token_ratios DROP COLUMN cut_at, DROP COLUMN cut_reported, DROP COLUMN cut_estimated;

-- +goose Down
SELECT 1;
