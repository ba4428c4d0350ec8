-- +goose Up

-- Which roles of a solution a user may take; no row: all of them.
CREATE TABLE allowed_biz_roles (
    user_id      text NOT NULL REFERENCES users (id),
    solution_id  text NOT NULL,
    biz_role_ids text[] NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, solution_id)
);

-- +goose Down
SELECT 1;
