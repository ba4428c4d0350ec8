-- +goose Up

CREATE INDEX audit_of_actor ON audit (actor_id, id DESC);
CREATE INDEX audit_of_target ON audit (target, id DESC);
CREATE INDEX users_email ON users (lower(email)) WHERE deleted_at IS NULL;
CREATE INDEX users_administrators ON users (id) WHERE administrator AND deleted_at IS NULL;

-- +goose Down
SELECT 1;
