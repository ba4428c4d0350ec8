-- +goose Up

-- Environment of a user's tools, in named buckets; sealed is the whole of one,
-- encrypted with the service's key.
CREATE TABLE env_buckets (
    user_id    text NOT NULL REFERENCES users (id),
    bucket     text NOT NULL CHECK (length(bucket) BETWEEN 1 AND 128),
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, bucket)
);

CREATE TABLE user_preferences (
    user_id    text NOT NULL REFERENCES users (id),
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);

-- What a front end keeps for a user, in a form of its own.
CREATE TABLE user_profiles (
    user_id    text PRIMARY KEY REFERENCES users (id),
    profile    jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 1;
