-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION event_log_reached() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN coalesce((SELECT high_water FROM event_log), 0);
END
$$;
-- +goose StatementEnd

-- starts_after is a position that the event log had reached before the turn:start of the
-- entry was published: a search for it begins there. NULL: unknown.
ALTER TABLE entries ADD COLUMN starts_after bigint;
ALTER TABLE entries ALTER COLUMN starts_after SET DEFAULT event_log_reached();

-- +goose Down
SELECT 1;
