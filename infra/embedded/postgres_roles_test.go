package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	temporallog "go.temporal.io/server/common/log"

	"everloop/infra/postgres"
	"everloop/infra/secrets"
)

// onlySuperusers are statements that leave the database.
var onlySuperusers = []string{
	"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'",
	"COPY (SELECT 1) TO '/tmp/everloop-copy'",
	"SELECT pg_read_file('postgresql.conf')",
	"SELECT pg_ls_dir('.')",
	"SELECT lo_import('/etc/hostname')",
	"ALTER SYSTEM SET shared_preload_libraries = 'x'",
	"CREATE ROLE another SUPERUSER",
	"SET ROLE everloop",
}

func TestPostgres_applicationRole_stays_in_its_databases(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, filepath.Join(t.TempDir(), "postgres"))

	db := openRecords(t, p)
	for _, statement := range onlySuperusers {
		_, err := db.Pool.Exec(t.Context(), statement)
		requireDenied(t, err, statement)
	}

	for _, database := range applicationDatabases {
		conn, err := pgx.Connect(t.Context(), p.URL(database))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), onlySuperusers[0])
		requireDenied(t, err, database)
		require.NoError(t, conn.Close(t.Context()))
	}
}

func TestPostgres_corrects_data_of_a_superuser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, dir)

	// As earlier versions left it: the superuser made everything.
	execSQL(t, p.SuperuserURL("postgres"), "DROP DATABASE everloop")
	execSQL(t, p.SuperuserURL("postgres"), "CREATE DATABASE everloop")
	require.NoError(t, postgres.Migrate(t.Context(), p.SuperuserURL(everloopDatabase)))

	for _, database := range []string{temporalDatabase, temporalVisibilityDatabase} {
		execSQL(t, p.SuperuserURL("postgres"), "ALTER DATABASE "+database+" OWNER TO everloop")
	}

	require.NoError(t, updateTemporalSchema(p.SuperuserURL("postgres"), temporallog.NewNoopLogger()))
	execSQL(t, p.SuperuserURL(everloopDatabase), `CREATE SCHEMA own; CREATE TYPE own.colour AS ENUM ('red');
		CREATE TABLE own.kept (id bigserial PRIMARY KEY, colour own.colour); CREATE VIEW own.seen AS SELECT * FROM own.kept`)
	execSQL(t, p.SuperuserURL("postgres"), "ALTER ROLE everloop_app SUPERUSER CREATEROLE; GRANT pg_execute_server_program TO everloop_app")
	stopPostgres(t, p)

	for range 2 { // the second start finds nothing to do
		p = startPostgres(t, dir)
		for _, database := range applicationDatabases {
			requireOwned(t, p, database)
		}

		db := openRecords(t, p)
		requireWorks(t, db)

		for _, statement := range onlySuperusers {
			_, err := db.Pool.Exec(t.Context(), statement)
			requireDenied(t, err, statement)
		}

		require.NoError(t, updateTemporalSchema(p.URL("postgres"), temporallog.NewNoopLogger()))
		db.Close()
		stopPostgres(t, p)
	}
}

// requireOwned requires that nothing in a database is left to the superuser but the
// members of extensions.
func requireOwned(t *testing.T, p *Postgres, database string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.SuperuserURL(database))
	require.NoError(t, err)

	defer conn.Close(context.Background())

	left, err := statements(t.Context(), conn, ownershipStatements, applicationRole)
	require.NoError(t, err)
	require.Empty(t, left, database)
}

// requireWorks changes the schema and the rows as a later migration does.
func requireWorks(t *testing.T, db *postgres.DB) {
	t.Helper()

	for _, statement := range []string{
		"ALTER TABLE sessions ADD COLUMN probe int", "ALTER TABLE sessions DROP COLUMN probe",
		"ALTER SEQUENCE sandbox_uids CACHE 1", "ALTER FUNCTION fold_case OWNER TO CURRENT_USER",
		"INSERT INTO own.kept (colour) VALUES ('red')", "ALTER TYPE own.colour RENAME VALUE 'red' TO 'red'",
		"CREATE EXTENSION pg_trgm", "DROP EXTENSION pg_trgm",
	} {
		_, err := db.Pool.Exec(t.Context(), statement)

		var refused *pgconn.PgError
		if errors.As(err, &refused) && (refused.Code == "42710" || refused.Code == "58P01" || refused.Code == "0A000") {
			continue // the label exists; the extension is not installed on this machine
		}

		require.NoError(t, err, statement)
	}
}

func openRecords(t *testing.T, p *Postgres) *postgres.DB {
	t.Helper()
	require.NoError(t, postgres.Migrate(t.Context(), p.URL(everloopDatabase)))

	box, err := secrets.NewBox("a key of more than thirty-two characters")
	require.NoError(t, err)
	db, err := postgres.Open(t.Context(), p.URL(everloopDatabase), postgres.Options{MaxConns: 2, ConnectTimeout: time.Minute, Box: box})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	return db
}

func requireDenied(t *testing.T, err error, statement string) {
	t.Helper()

	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused, statement)
	require.Equal(t, "42501", refused.Code, "%s: %v", statement, err)
}
