-- +goose Up

-- sessions.env holds a JSON string, the sealed variables; an object is of an earlier
-- version of the service, and is found here to be sealed. All but empty once it is.
CREATE INDEX sessions_plain_env ON sessions (id) WHERE jsonb_typeof(env) = 'object' AND env <> '{}';

-- +goose Down
DROP INDEX sessions_plain_env;
