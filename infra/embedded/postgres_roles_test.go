package embedded

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

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

func TestPostgres_applicationRole_losesOtherRights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	p := startPostgres(t, dir)
	execSQL(t, p.SuperuserURL("postgres"), "ALTER ROLE everloop_app SUPERUSER CREATEROLE; GRANT pg_execute_server_program TO everloop_app")
	stopPostgres(t, p)

	p = startPostgres(t, dir)
	defer stopPostgres(t, p)

	db := openRecords(t, p)
	for _, statement := range onlySuperusers {
		_, err := db.Pool.Exec(t.Context(), statement)
		requireDenied(t, err, statement)
	}

	db.Close()
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
