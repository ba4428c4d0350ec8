-- +goose Up

-- The version of the compute environment that a user's work was last started again
-- with; without a row it was never looked at.
CREATE TABLE compute_envs (
    user_id    text PRIMARY KEY REFERENCES users (id),
    version    text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 1;
