package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/tools/common/schema"
	temporalsql "go.temporal.io/server/tools/sql"
)

// temporalSchemas contains the directory of the migrations, embedded in the server's module, by
// database.
var temporalSchemas = map[string]string{
	temporalDatabase:           "postgresql/v12/temporal",
	temporalVisibilityDatabase: "postgresql/v12/visibility",
}

// updateTemporalSchema migrates both databases to the schema of the linked server. Without
// pending migrations it takes some 20 ms.
func updateTemporalSchema(databaseURL string, logger log.Logger) error {
	for database, name := range temporalSchemas {
		if err := updateSchema(databaseURL, database, name, logger); err != nil {
			return fmt.Errorf("bring schema of database %s up to date: %w", database, err)
		}
	}

	return nil
}

func updateSchema(databaseURL, database, name string, logger log.Logger) error {
	conn, err := temporalsql.NewConnection(temporalSQL(databaseURL, database), logger)
	if err != nil {
		return err
	}
	defer conn.Close()

	if _, err := conn.ReadSchemaVersion(); err != nil {
		// Unknown table: a new database. If the database is unavailable, the next statement
		// fails.
		if err := schema.NewSetupSchemaTask(conn, &schema.SetupConfig{InitialVersion: "0.0"}, logger).Run(); err != nil {
			return err
		}
	}

	return schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{DBName: database, SchemaName: name}, logger).Run()
}

// createTemporalDatabases creates the databases on an external server.
func createTemporalDatabases(ctx context.Context, databaseURL string) error {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return withoutURL("connect to the PostgreSQL server", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	for _, name := range []string{temporalDatabase, temporalVisibilityDatabase} {
		err := createDatabase(ctx, conn, name)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "42P04" {
			continue // another process was faster
		}

		if err != nil {
			return fmt.Errorf("%w (Temporal needs it; create it by hand, or set TEMPORAL_ADDRESS to use a running Temporal)", err)
		}
	}

	return nil
}

// temporalClaimKey is the advisory lock of the process that runs Temporal.
const temporalClaimKey = 0x6576_6572_6c6f_6f70 // "everloop"

// claimTemporalDatabase ensures that no other process runs Temporal on the same databases: two
// servers with static hosts would compete for the shards. The advisory lock is released with the
// returned connection.
func claimTemporalDatabase(ctx context.Context, databaseURL string) (*pgx.Conn, error) {
	dsn, err := databaseAt(databaseURL, temporalDatabase, map[string]string{"application_name": "everloop-temporal-lock"})
	if err != nil {
		return nil, err
	}

	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, withoutURL("connect to database "+temporalDatabase, err)
	}

	var claimed bool

	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(temporalClaimKey)).Scan(&claimed)
	if err == nil && !claimed {
		err = errors.New("another process runs the embedded Temporal on this PostgreSQL server: set TEMPORAL_ADDRESS to its address")
	}

	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}

	return conn, nil
}

// databaseAt returns the URL of another database on the same server, with run-time
// parameters added.
func databaseAt(serverURL, database string, parameters map[string]string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "", errors.New("the database address must be a URL that begins with postgres://")
	}

	u.Path = "/" + database
	query := u.Query()
	query.Del("dbname")

	for key, value := range parameters {
		query.Set(key, value)
	}

	u.RawQuery = query.Encode()

	return u.String(), nil
}

// withoutURL drops the text of a parse error, which quotes the URL and its password.
func withoutURL(doing string, err error) error {
	if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
		return fmt.Errorf("%s: the address is not a valid postgres:// URL", doing)
	}

	return fmt.Errorf("%s: %w", doing, err)
}
