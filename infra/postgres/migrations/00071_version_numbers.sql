-- +goose Up

-- The newest version of a document can be deleted; its number is not given again.
ALTER TABLE prod_documents
    ADD COLUMN deleted integer NOT NULL DEFAULT 0; -- the highest number of a version that was deleted while it was the newest

-- +goose Down
SELECT 1;
