-- +goose Up

-- Which database this is. A restore changes it; the namespace of Temporal has a copy, by
-- which a process notices at its start that the open runs there belong to another database.
CREATE TABLE database_generation (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id), -- one row
    generation uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO database_generation DEFAULT VALUES;

-- +goose Down
DROP TABLE database_generation;
