package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/infra/postgres"
)

// databaseTime is the timeout for creating one database, including the wait for another process
// that creates the template.
const databaseTime = 10 * time.Minute

// objectInUse is PostgreSQL's error code for a database that cannot be copied or renamed because
// another client is connected; PostgreSQL waits five seconds before.
const objectInUse = "55006"

// templateLock is the advisory lock for creating the template: several test binaries can share
// one server.
const templateLock = 0x7465_7374_6b69_7400 // "testkit"

// Postgres returns the URL of an empty database with Everloop's schema, private to the test. It
// is dropped at the end of the test, even while clients are connected.
//
// It is a copy of a template, which is migrated once for each state of the migrations. A copy has
// some 1,200 files: copied as files, on a server without fsync, it takes a third of the time of a
// copy through the write-ahead log.
func Postgres(t testing.TB) string {
	t.Helper()
	found := Engines(t)

	server := found.creator()
	if err := ensureTemplate(found); err != nil {
		t.Fatalf("make the template database: %v", err)
	}

	name := "test_" + randomHex(8)

	err := onServer(server, func(ctx context.Context, conn *pgx.Conn) error {
		return execAlone(ctx, conn, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY OWNER %s",
			name, templateName(), found.owner()))
	})
	if err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}

	t.Cleanup(func() {
		err := onServer(server, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name))
			return err
		})
		if err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})

	return databaseURL(found.Get(t, "postgres_url"), name)
}

// AsSuperuser returns the URL of a test's database with the server's superuser, for operations
// that Everloop's role cannot do, such as filling tables without their system triggers.
func AsSuperuser(t testing.TB, database string) string {
	t.Helper()

	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database's address is not a URL")
	}

	return databaseURL(Engines(t).creator(), strings.TrimPrefix(u.Path, "/"))
}

// creator returns the URL of the server with the role that creates and drops databases.
func (a Addresses) creator() string { return cmp.Or(a["postgres_superuser_url"], a["postgres_url"]) }

// owner returns Everloop's role, which owns the databases of tests.
func (a Addresses) owner() string {
	u, err := url.Parse(a["postgres_url"])
	if err != nil {
		panic("testkit: the engines' PostgreSQL address is not a URL") // our own program wrote it
	}

	return pgx.Identifier{u.User.Username()}.Sanitize()
}

// templateName changes with the migrations.
func templateName() string { return "template_" + postgres.Records().Hash() }

var (
	templateMu   sync.Mutex
	templateMade = map[string]bool{} // by name of the template
)

// fast are settings for a server that serves tests only: it can lose data in a power failure, but
// not otherwise.
var fast = []string{"ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()"}

// ensureTemplate creates the template database unless this or another test binary has created it.
func ensureTemplate(found Addresses) error {
	templateMu.Lock()
	defer templateMu.Unlock()

	name := templateName()
	if templateMade[name] {
		return nil
	}

	err := onServer(found.creator(), func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
			return err
		}
		// The lock ends with the connection.
		var exists bool

		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
		if err != nil || exists {
			return err
		}

		if found["postgres_superuser_url"] != "" {
			for _, statement := range fast {
				if _, err := conn.Exec(ctx, statement); err != nil {
					return err
				}
			}
		}
		// Create it under another name first: a killed test must not leave a template without
		// tables.
		draft := name + "_draft"
		for _, statement := range []string{
			fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", draft),
			fmt.Sprintf("CREATE DATABASE %s OWNER %s", draft, found.owner()),
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}

		if err := postgres.Migrate(ctx, databaseURL(found["postgres_url"], draft)); err != nil {
			return err
		}

		return execAlone(ctx, conn, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", draft, name))
	})
	templateMade[name] = err == nil

	return err
}

// execAlone executes a statement that needs a database without other connections. On a slow
// machine closed connections of clients, and PostgreSQL's own, can still exist for a moment.
func execAlone(ctx context.Context, conn *pgx.Conn, statement string) error {
	for {
		_, err := conn.Exec(ctx, statement)
		if fault, ok := errors.AsType[*pgconn.PgError](err); !ok || fault.Code != objectInUse {
			return err
		}
	}
}

// onServer runs f on a connection to the server's maintenance database.
func onServer(server string, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTime)
	defer cancel()

	conn, err := pgx.Connect(ctx, databaseURL(server, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	return f(ctx, conn)
}

// databaseURL returns the URL of another database of the same server.
func databaseURL(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic("testkit: the engines' PostgreSQL address is not a URL") // our own program wrote it
	}

	u.Path = "/" + name

	return u.String()
}
