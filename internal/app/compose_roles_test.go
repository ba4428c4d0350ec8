package app

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/companions/registry"
	"everloop/infra/embedded"
	"everloop/infra/postgres"
)

// composeRoles are the roles that build/compose/roles.sql creates.
var composeRoles = []string{"app", "identity", "registry", "temporal", "backup"}

// composeDatabase is a PostgreSQL server as the Compose file's: the superuser is everloop.
type composeDatabase struct {
	*embedded.Postgres
}

func startComposeDatabase(t *testing.T) composeDatabase {
	t.Helper()

	server, err := embedded.StartPostgres(t.Context(), filepath.Join(t.TempDir(), "postgres"), embedded.PostgresConfig{}, slog.Default())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })

	database := composeDatabase{server}
	require.NoError(t, database.exec(t, database.SuperuserURL("postgres"), "DROP DATABASE everloop"))
	require.NoError(t, database.exec(t, database.SuperuserURL("postgres"), "CREATE DATABASE everloop"))

	return database
}

// as returns the address of the database everloop for a role.
func (d composeDatabase) as(t *testing.T, role string) string {
	t.Helper()

	address, err := url.Parse(d.SuperuserURL("everloop"))
	require.NoError(t, err)

	address.User = url.UserPassword("everloop_"+role, role+"-password")

	return address.String()
}

func (d composeDatabase) exec(t *testing.T, address, statement string) error {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)

	defer conn.Close(context.WithoutCancel(t.Context()))

	_, err = conn.Exec(t.Context(), statement)

	return err
}

// setRoles runs roles.sql as roles.sh does.
func (d composeDatabase) setRoles(t *testing.T) {
	t.Helper()

	script, err := os.ReadFile(filepath.Join("..", "..", "build", "compose", "roles.sql"))
	require.NoError(t, err)

	settings := ""
	for _, role := range composeRoles {
		settings += "SET everloop." + role + "_password = '" + role + "-password';"
	}

	for _, name := range []string{"everloop", "temporal", "temporal_visibility"} {
		require.NoError(t, d.exec(t, d.SuperuserURL(name), settings+string(script)), name)
	}
}

func (d composeDatabase) migrate(t *testing.T, app, identityURL, registryURL string) {
	t.Helper()

	require.NoError(t, postgres.Migrate(t.Context(), app))
	require.NoError(t, identity.Records().Migrate(t.Context(), identityURL))
	require.NoError(t, registry.Records().Migrate(t.Context(), registryURL))
}

func (d composeDatabase) requireSeparated(t *testing.T) {
	t.Helper()

	for _, role := range composeRoles {
		for _, statement := range []string{
			"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'", "SELECT pg_read_file('postgresql.conf')", "CREATE ROLE another SUPERUSER",
		} {
			requireNoRight(t, d.exec(t, d.as(t, role), statement), role, statement)
		}
	}

	for role, statements := range map[string][]string{
		"app": {"SELECT * FROM identity.users", "SELECT * FROM registry.goose_db_version"},
		"identity": {
			"SELECT * FROM public.users", "SELECT * FROM registry.goose_db_version", "CREATE SCHEMA everloop_app",
			"CREATE TABLE public.x ()",
		},
		"registry": {"SELECT * FROM public.users", "SELECT * FROM identity.users"},
		"temporal": {"SELECT * FROM public.sessions", "SELECT * FROM identity.users", "UPDATE users SET administrator = true"},
	} {
		for _, statement := range statements {
			requireNoRight(t, d.exec(t, d.as(t, role), statement), role, statement)
		}
	}

	require.NoError(t, d.exec(t, d.as(t, "temporal"), "SELECT * FROM users JOIN api_keys ON user_id = users.id"))
	require.NoError(t, d.exec(t, d.as(t, "temporal"), "UPDATE api_keys SET last_used_at = now(), last_used_ip = ''"))

	for _, table := range []string{"public.users", "identity.users", "registry.goose_db_version"} {
		require.NoError(t, d.exec(t, d.as(t, "backup"), "SELECT * FROM "+table))
	}
}

func requireNoRight(t *testing.T, err error, role, statement string) {
	t.Helper()

	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused, "%s: %s", role, statement)
	require.Equal(t, "42501", refused.Code, "%s: %s: %v", role, statement, err)
}

func TestComposeRoles_newVolume(t *testing.T) {
	t.Parallel()

	database := startComposeDatabase(t)
	database.setRoles(t)
	database.migrate(t, database.as(t, "app"), database.as(t, "identity"), database.as(t, "registry"))
	database.requireSeparated(t)

	database.setRoles(t) // the next start
	database.requireSeparated(t)
}

func TestComposeRoles_restoredVolume(t *testing.T) {
	t.Parallel()

	database := startComposeDatabase(t)
	database.setRoles(t)

	restore := database.as(t, "backup")
	database.migrate(t, restore, restore, restore)
	database.setRoles(t)
	require.NoError(t, database.exec(t, database.as(t, "app"), "ALTER TABLE sessions ADD COLUMN probe int"))
	require.NoError(t, database.exec(t, database.as(t, "identity"), "ALTER TABLE identity.users ADD COLUMN probe int"))
	database.requireSeparated(t)
}
