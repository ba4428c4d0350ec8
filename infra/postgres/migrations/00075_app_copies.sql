-- +goose Up

-- What the object store keeps of published apps: a row is made before the objects of a
-- copy, and goes after them. bytes is what the copy needs at most until it is stored.
CREATE TABLE app_copies (
    name     text PRIMARY KEY, -- under which the object store has it
    app_id   text NOT NULL,    -- may be gone, when its first copy was refused
    owner_id text NOT NULL REFERENCES users (id),
    bytes    bigint NOT NULL,
    made_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX app_copies_owner ON app_copies (owner_id) INCLUDE (bytes);
CREATE INDEX app_copies_age ON app_copies (made_at);

-- Before this version all copies of an app had one name, and nothing counted them.
INSERT INTO app_copies (name, app_id, owner_id, bytes) SELECT 'app-' || id, id, owner_id, 0 FROM apps;

-- +goose Down
DROP TABLE app_copies;
