-- +goose Up
-- Clients of the OpenID provider that may act as a person, as the person has allowed, with
-- all scopes that were granted, separated by spaces.
CREATE TABLE identity.consents (
    user_id    text NOT NULL REFERENCES identity.users (id),
    client_id  text NOT NULL,
    scope      text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, client_id)
);
