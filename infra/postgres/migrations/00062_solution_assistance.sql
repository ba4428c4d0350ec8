-- +goose Up

-- In which of its sessions an agent assists with the documents of a production solution.
ALTER TABLE prod_solutions
    ADD COLUMN ai_assist              boolean NOT NULL DEFAULT false,
    ADD COLUMN flow_ai_assist         boolean NOT NULL DEFAULT false,
    ADD COLUMN architecture_ai_assist boolean NOT NULL DEFAULT false;

-- That a production solution may name the session, so that the steps of others need not
-- look. It is never reset.
ALTER TABLE sessions ADD COLUMN assists_solutions boolean NOT NULL DEFAULT false;

-- +goose Down
SELECT 1;
