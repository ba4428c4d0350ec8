-- +goose Up
-- Wrong passwords from an address with a session of the user, ended ones too, count for that address alone.
CREATE INDEX sessions_of_user ON identity.sessions (user_id, id) WHERE client_id = '';
