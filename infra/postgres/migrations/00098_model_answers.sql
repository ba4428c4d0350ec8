-- +goose Up

-- The size of a turn's prompt; null: it is input_tokens. Input_tokens is the sum of all model
-- calls of the turn, and what a server reports that cuts prompts is far too little.
ALTER TABLE entries ADD COLUMN prompt_tokens bigint;

-- Answers among the model faults that the model server may charge.
ALTER TABLE chats ADD COLUMN model_faults_paid integer NOT NULL DEFAULT 0 CHECK (model_faults_paid >= 0);
ALTER TABLE loops ADD COLUMN model_faults_paid integer NOT NULL DEFAULT 0 CHECK (model_faults_paid >= 0);

-- Images that a model server refused, by the name of their object or their address. Later
-- prompts of the session to the same model leave them out.
CREATE TABLE refused_images (
    session_id text        NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    model      text        NOT NULL,
    image      text        NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, model, image)
);

-- The last prompt that a model server cut: the tokens that it reported, and the estimate.
ALTER TABLE token_ratios
    ADD COLUMN cut_at        timestamptz,
    ADD COLUMN cut_reported  bigint,
    ADD COLUMN cut_estimated bigint;

-- +goose Down
SELECT 1;
