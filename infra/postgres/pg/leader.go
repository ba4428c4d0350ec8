package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Times of a lead: how often the connection that holds the lock is checked, how long
// one answer may take, and after how much silence the server ends that connection by
// itself, so that another process can lead.
const (
	leadCheckEvery = 2 * time.Second
	leadCheckTime  = 5 * time.Second
	leadSilence    = 20 * time.Second
)

// Lead calls work if no other process holds the lock of that name, and reports whether
// it did. The lock belongs to its own connection: when that is lost, so is the
// lead, and the context of work ends. Lead returns when work does. Work must be
// harmless when two processes do it for some seconds.
func (db *DB) Lead(ctx context.Context, name string, work func(ctx context.Context)) (led bool, err error) {
	config := db.Pool.shared.Config().ConnConfig
	config.RuntimeParams["idle_session_timeout"] = fmt.Sprint(leadSilence.Milliseconds())
	config.RuntimeParams["application_name"] = "everloop leader"

	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, fmt.Errorf("connect to lead: %w", err)
	}

	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadCheckTime)
		defer cancel()

		if led && !conn.IsClosed() {
			// Closing alone releases the lock only once the server has noticed it.
			_, _ = conn.Exec(leave, `SELECT pg_advisory_unlock_all()`)
		}

		_ = conn.Close(leave)
	}()

	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, name).Scan(&led); err != nil || !led {
		return false, Fault("take the lead", err)
	}

	leading, stop := context.WithCancel(ctx)
	defer stop()

	done := make(chan struct{})
	go func() {
		defer close(done)

		work(leading)
	}()

	err = db.keepLead(ctx, conn, done)

	stop()
	<-done

	return true, err
}

// keepLead checks the connection until work is done, ctx ends or the connection is
// lost, which is an error. After a failover the connection may be to the former primary,
// whose locks do not exist on the new one.
func (db *DB) keepLead(ctx context.Context, conn *pgx.Conn, done <-chan struct{}) error {
	failovers := db.Failovers()

	tick := time.NewTicker(leadCheckEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-done:
			return nil
		case <-tick.C:
		}

		if db.Failovers() != failovers {
			return errors.New("lost the lead by a failover of PostgreSQL")
		}

		check, cancel := context.WithTimeout(ctx, leadCheckTime)
		err := conn.Ping(check)

		cancel()

		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("lost the connection that holds the lead: %w", err)
		}
	}
}
