package pg

import (
	"context"
	"fmt"
)

// reserve is more than the numbers that the event log gives in the time by which the
// database may be behind it.
const reserve = 1_000_000

// OpenEventLog notes that a process writes to the event log that a server keeps. It gives
// how far the log is known to have come, and the number up to which sequences may have
// been given that no process saved.
//
// A server that restarted may have lost its last second. What it gave in that time is
// known if all processes that wrote have saved it when they stopped. If one has not, all
// numbers up to now are reserved.
func (db *DB) OpenEventLog(ctx context.Context, writer, server string) (high, reserved uint64, err error) {
	if high, err = db.HighWater(ctx); err != nil {
		return 0, 0, err
	}

	var mark int64

	err = db.Pool.QueryRow(ctx, `
		WITH stored AS (SELECT server FROM event_log WHERE id FOR UPDATE),
		     left_open AS (DELETE FROM event_log_writers w USING stored s WHERE s.server <> $2 RETURNING w.writer),
		     own AS (INSERT INTO event_log_writers (writer) VALUES ($1))
		INSERT INTO event_log (high_water, server) VALUES (0, $2)
		ON CONFLICT (id) DO UPDATE SET
			server   = excluded.server,
			reserved = CASE WHEN NOT EXISTS (SELECT 1 FROM left_open) THEN event_log.reserved
			           ELSE greatest(event_log.reserved, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) END
		RETURNING reserved`, writer, server, int64(high)+reserve).Scan(&mark) //nolint:gosec // a sequence is below 2^63
	if err != nil {
		return 0, 0, fmt.Errorf("note that the event log is open: %w", err)
	}

	return high, uint64(mark), nil //nolint:gosec // not negative
}

// CloseEventLog notes that a process writes no more, and how far the event log came.
func (db *DB) CloseEventLog(ctx context.Context, writer string, high uint64) error {
	_, err := db.Pool.Exec(ctx, `
		WITH own AS (DELETE FROM event_log_writers WHERE writer = $1)
		UPDATE event_log SET high_water = greatest(high_water, $2)`, writer, int64(high)) //nolint:gosec // a sequence is below 2^63
	if err != nil {
		return fmt.Errorf("note that the event log is closed: %w", err)
	}

	return nil
}
