-- +goose Up

-- Why a scheduled run failed. The reason of its outcome (reason_code), such as run_now, stays beside it.
ALTER TABLE scheduled_runs ADD COLUMN error_code text;

UPDATE scheduled_runs SET error_code = reason_code
WHERE  state = 'ended' AND status = 'failed' AND outcome IN ('fired', 'caught_up', 'blocked');

-- +goose Down
SELECT 1;
