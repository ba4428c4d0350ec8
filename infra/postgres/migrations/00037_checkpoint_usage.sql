-- +goose Up

-- What the object store keeps of the checkpoints of a session, in bytes. Checkpoints of
-- before this version are not counted.
CREATE TABLE checkpoint_usage (
    session_id text PRIMARY KEY REFERENCES sessions (id),
    owner_id   text NOT NULL REFERENCES users (id),
    bytes      bigint NOT NULL
);
CREATE INDEX checkpoint_usage_owner ON checkpoint_usage (owner_id) INCLUDE (bytes);

-- +goose Down
DROP TABLE checkpoint_usage;
