package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// timeline watches which history of the database new connections lead to. A replica that
// is promoted starts a new timeline, and may lack the last commits of its primary: what
// this process remembers of committed state may not exist there.
type timeline struct {
	logger *slog.Logger

	mu        sync.Mutex
	reset     func() // closes the connections of the earlier timeline as they become idle
	system    string // the identifier of the cluster, which its replicas share
	number    int64
	failovers int // changes that this process has seen
	last      time.Time
}

// errFormerPrimary refuses a connection to a primary that was replaced: what is committed
// there is lost.
var errFormerPrimary = errors.New("this PostgreSQL server is on an earlier timeline than one that was reached before: " +
	"it is a former primary, from which DATABASE_URL must lead away")

func (t *timeline) setReset(reset func()) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.reset = reset
}

// watch compares a new connection with those before. A server that does not report its
// timeline, such as a standby, is not compared.
func (t *timeline) watch(ctx context.Context, conn *pgx.Conn) error {
	// The number in the control file is that of the last checkpoint, minutes old after a
	// promotion; the name of the current WAL file starts with that of now. The low-level call
	// is no statement of the service, which tracers show.
	results, err := conn.PgConn().Exec(ctx, `
		SELECT (SELECT system_identifier FROM pg_control_system()),
		       CASE WHEN pg_is_in_recovery() THEN '0' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END`).ReadAll()
	if conn.IsClosed() || ctx.Err() != nil {
		return fmt.Errorf("read the timeline of PostgreSQL: %w", err)
	}

	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return nil // a service that does not have these functions
	}

	row := results[0].Rows[0]

	number, err := strconv.ParseInt(string(row[1]), 16, 64)
	if err != nil || number == 0 {
		return nil
	}

	return t.reached(string(row[0]), number)
}

func (t *timeline) reached(system string, number int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	switch {
	case t.number == 0:
		t.system, t.number = system, number
		return nil
	case t.system == system && t.number == number:
		return nil
	case t.system == system && number < t.number:
		return errFormerPrimary
	}

	t.logger.Warn("PostgreSQL failed over; what this process had cached of the former primary is dropped",
		"timeline", number, "former_timeline", t.number)

	t.system, t.number = system, number
	t.failovers++
	t.last = time.Now()

	go t.reset() // it needs the locks of the pools, one of which opens this connection

	return nil
}

// Failovers counts the failovers of PostgreSQL that this process has seen. What was
// remembered of committed state at a lower count may not exist any more.
func (db *DB) Failovers() int {
	db.timeline.mu.Lock()
	defer db.timeline.mu.Unlock()

	return db.timeline.failovers
}

// failedOver reports whether this process has seen a failover within d.
func (db *DB) failedOver(d time.Duration) bool {
	db.timeline.mu.Lock()
	defer db.timeline.mu.Unlock()

	return db.timeline.failovers > 0 && time.Since(db.timeline.last) < d
}
