package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// errPooled rejects a pooler that does not preserve sessions of PostgreSQL.
var errPooled = errors.New("DATABASE_URL leads to a pooler that does not keep sessions apart, such as PgBouncer " +
	"with transaction pooling: use the address of PostgreSQL itself, or a pool with pool_mode = session " +
	"that passes startup parameters on")

// CheckPooling returns an error when a pooler in front of the database drops the parameters of
// connections, or assigns two connections the same session: plans would scan whole tables, and
// session locks, which elect a leader, would have two owners.
func CheckPooling(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return errors.New("the database address cannot be parsed") // pgx's error would contain the password
	}

	config.ConnectTimeout = 10 * time.Second
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.RuntimeParams["enable_seqscan"] = "off"

	first, err := openSession(ctx, config)
	if err != nil {
		return err
	}
	defer first.close()

	second, err := openSession(ctx, config)
	if err != nil {
		return err
	}
	defer second.close()

	if first.pid == second.pid {
		return errPooled
	}

	return nil
}

// session is a connection and the server process of it.
type session struct {
	pid   uint32
	close func()
}

// openSession connects, and returns the server's process id and whether a parameter of the
// connection arrived.
func openSession(ctx context.Context, config *pgx.ConnConfig) (s session, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil && strings.Contains(err.Error(), "unsupported startup parameter") {
		return s, errPooled
	}

	if err != nil {
		return s, fmt.Errorf("reach database: %s", databaseFault(err))
	}

	s.close = func() { _ = conn.Close(context.WithoutCancel(ctx)) }

	var seqscan string

	err = conn.QueryRow(ctx, `SELECT current_setting('enable_seqscan'), pg_backend_pid()`).Scan(&seqscan, &s.pid)

	switch {
	case err != nil:
		err = fmt.Errorf("check the database: %s", databaseFault(err))
	case seqscan != "off":
		err = errPooled
	default:
		return s, nil
	}

	s.close()

	return s, err
}
