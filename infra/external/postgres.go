package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/internal/pgprograms"
)

// clockSpread is the maximum clock difference of two machines. The age of an event, by the clock
// of its process, decides how another process publishes it: from a difference of 45 s, events can
// be duplicated.
const clockSpread = 2 * time.Second

// ProbePostgres requests the version of a server. Results do not contain the URL, which has a
// password. clock is set when the server's clock differs from this machine's.
func ProbePostgres(ctx context.Context, url string) (server domain.CheckResult, clock *domain.CheckResult) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return failed("DATABASE_URL cannot be read", "it has the form postgres://user:password@host:5432/database"), nil
	}

	config.ConnectTimeout = 10 * time.Second
	place := fmt.Sprintf("%s, database %s", config.Host, config.Database)

	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return failed(place+" cannot be reached ("+databaseFault(err)+")", "start the server, or correct DATABASE_URL"), nil
	}
	defer connection.Close(context.WithoutCancel(ctx))

	var (
		version int
		now     time.Time
	)

	asked := time.Now()

	err = connection.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, clock_timestamp()").Scan(&version, &now)
	if err != nil {
		return failed(place+" does not answer ("+databaseFault(err)+")", ""), nil
	}

	detail := fmt.Sprintf("version %d.%d at %s", version/10000, version%10000, place)
	if version/10000 < pgprograms.MinMajor {
		return failed(detail, fmt.Sprintf("version %d or newer is needed", pgprograms.MinMajor)), nil
	}

	if err := CheckPooling(ctx, url); err != nil {
		return failed(detail+": "+err.Error(), "see docs/deployment.md, Engines of your own"), nil
	}

	var (
		standbys    int
		synchronous string
	)

	err = connection.QueryRow(ctx, `SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication`).
		Scan(&standbys, &synchronous)
	if err != nil {
		return failed(place+" does not answer ("+databaseFault(err)+")", ""), nil
	}

	return checkStandbys(detail, standbys, synchronous), checkClock(now, asked, time.Now())
}

// checkStandbys fails when commits do not wait for any of the standbys.
func checkStandbys(detail string, standbys int, synchronous string) domain.CheckResult {
	if standbys > 0 && synchronous == "" {
		return failed(detail+" has a standby, and commits do not wait for it: a failover loses acknowledged work",
			"set synchronous_standby_names, with synchronous_commit = remote_write or higher")
	}

	return passed(detail)
}

// checkClock compares the server's clock, read between two readings of this machine's clock, with
// this machine's; nil: equal enough.
func checkClock(server, before, after time.Time) *domain.CheckResult {
	spread := max(before.Sub(server), server.Sub(after))
	if spread <= clockSpread {
		return nil
	}

	return &domain.CheckResult{
		Status: domain.CheckWarn, Message: fmt.Sprintf("differs by %s from this machine's", spread.Round(time.Second)),
		Hint: "synchronise both clocks (NTP)",
	}
}

// databaseFault returns the server's message, or the network's.
func databaseFault(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}

	return Cause(err)
}
