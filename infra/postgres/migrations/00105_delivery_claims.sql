-- +goose Up

-- Attempts under way: counted each time deliveries are claimed, twice a second on each worker.
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (webhook_id) WHERE status = 'pending' AND claimed_until IS NOT NULL;

-- +goose Down
DROP INDEX webhook_deliveries_claimed;
