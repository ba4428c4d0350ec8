package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/domain"
	"everloop/infra/backup"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/schema"
	"everloop/internal/testkit"
)

// place is a deployment of one test.
type place struct {
	backup.Deployment
	url string
	dir string
}

func migrated(s schema.Schema) backup.Schema {
	return backup.Schema{Name: s.Name, Newest: s.Newest(), Migrate: s.MigrateTo}
}

func newPlace(t *testing.T, url string) place {
	t.Helper()

	bucket := testkit.Objects(t)
	client, err := minio.New(bucket.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(bucket.AccessKey, bucket.SecretKey, "")})
	require.NoError(t, err)

	dir := t.TempDir()

	return place{url: url, dir: dir, Deployment: backup.Deployment{
		Databases: []backup.Database{
			{
				Name:    "everloop",
				URL:     url,
				Live:    postgres.LiveSessions,
				Schemas: []backup.Schema{migrated(postgres.Records()), migrated(identity.Records())},
				Restored: []backup.Statement{
					{SQL: postgres.DeleteGone, Gone: true},
					{SQL: postgres.ForgetEngine},
					{SQL: postgres.NewGeneration},
				},
			},
		},
		Bucket:   backup.Bucket{Client: client, Name: bucket.Name},
		Trees:    []backup.Tree{{Name: "workspace", Dir: filepath.Join(dir, "workspace")}},
		Files:    []backup.File{{Name: "encryption-key", Path: filepath.Join(dir, "encryption-key")}},
		Seal:     func(text []byte) ([]byte, error) { return text, nil },
		Progress: func(string) {},
	}}
}

// opened returns a database with its stores.
func opened(t *testing.T) (*postgres.DB, string) {
	t.Helper()

	url := testkit.Postgres(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 8, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	return db, url
}

// emptied takes the schema out of a test's database.
func emptied(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	_, err = conn.Exec(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	require.NoError(t, err)

	return url
}

// content is everything in a database, as text.
func content(t *testing.T, url string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	rows, err := conn.Query(t.Context(), `
		SELECT format('%I.%I', n.nspname, c.relname),
		       (xpath('/row/t/text()', query_to_xml(format(
		           'SELECT coalesce(string_agg(t::text, E''\n'' ORDER BY t::text), '''') AS t FROM %I.%I t',
		           n.nspname, c.relname), true, true, '')))[1]::text
		FROM   pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE  n.nspname IN ('public', 'identity') AND c.relkind = 'r' AND c.relname <> 'goose_db_version'`)
	require.NoError(t, err)

	all := map[string]string{}

	var (
		name string
		text *string
	)

	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		if text != nil {
			all[name] = *text
		}

		return nil
	})
	require.NoError(t, err)

	return all
}

// constraints returns the definitions of all constraints and triggers.
func constraints(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	rows, err := conn.Query(t.Context(), `
		SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0
		UNION ALL SELECT tgname || ' ' || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)

	return all
}

func exec(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	_, err = conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func restore(t *testing.T, path string, to place) error {
	t.Helper()

	checked, err := backup.Check(path, "encryption-key")
	require.NoError(t, err)

	return checked.Restore(t.Context(), to.Deployment)
}

func TestRestore_everyRowObjectAndFile(t *testing.T) {
	t.Parallel()

	db, url := opened(t)
	from := newPlace(t, url)
	require.NoError(t, identity.Records().Migrate(t.Context(), from.url))

	_, user, session, _ := pgtest.RunningWith(t, db, &pgtest.Log{})
	memory := "tab\tand\nnewline and \\N and ünï"
	exec(t, from.url, `INSERT INTO memories (user_id, type, content) VALUES ($1, 'feedback', $2)`, user.ID, memory)

	require.NoError(t, os.MkdirAll(filepath.Join(from.dir, "workspace", string(session)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(from.dir, "workspace", string(session), "file"), []byte("kept"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(from.dir, "encryption-key"), []byte("the key"), 0o600))

	for key, text := range map[string]string{"images/a/b": "picture", "events/x": strings.Repeat("large ", 1<<20), "empty": ""} {
		_, err := from.Bucket.Client.PutObject(t.Context(), from.Bucket.Name, key, strings.NewReader(text), int64(len(text)),
			minio.PutObjectOptions{ContentType: "image/png", UserMetadata: map[string]string{"Kind": key}})
		require.NoError(t, err)
	}

	path := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Write(t.Context(), path, from.Deployment)
	require.NoError(t, err)
	require.Empty(t, m.Databases["everloop"].Gone)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = backup.Write(t.Context(), path, from.Deployment)
	require.ErrorContains(t, err, "exists", "no backup is written over")

	to := newPlace(t, emptied(t, testkit.Postgres(t)))
	require.NoError(t, restore(t, path, to))

	const generation = "public.database_generation"

	was, is := content(t, from.url), content(t, to.url)
	require.NotEmpty(t, was[generation])
	require.NotEmpty(t, is[generation])
	require.NotEqual(t, was[generation], is[generation], "a restored database is another one")
	delete(was, generation)
	delete(is, generation)
	require.Equal(t, was, is)
	require.Equal(t, constraints(t, from.url), constraints(t, to.url))

	// Numbers continue after those in use.
	exec(t, to.url, `INSERT INTO memories (user_id, type, content) VALUES ($1, 'feedback', 'another')`, user.ID)

	kept, err := os.ReadFile(filepath.Join(to.dir, "workspace", string(session), "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(kept))

	object, err := to.Bucket.Client.StatObject(t.Context(), to.Bucket.Name, "images/a/b", minio.StatObjectOptions{})
	require.NoError(t, err)
	require.Equal(t, []any{"image/png", int64(7), "images/a/b"}, []any{object.ContentType, object.Size, object.UserMetadata["Kind"]})

	err = restore(t, path, to)
	require.ErrorContains(t, err, "database everloop is not empty")
	require.ErrorContains(t, err, "workspace is not empty")
	require.ErrorContains(t, err, "encryption-key exists")
	require.ErrorContains(t, err, "the bucket "+to.Bucket.Name+" is not empty")
}

// A session that is deleted while the backup is written may have lost its files: it is
// deleted after a restore too.
func TestRestore_deletedMeanwhile(t *testing.T) {
	t.Parallel()

	db, url := opened(t)
	from := newPlace(t, url)

	_, user, session, _ := pgtest.RunningWith(t, db, &pgtest.Log{})
	other, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	from.Progress = func(what string) {
		if what == "workspace" { // the records are in the backup
			exec(t, from.url, `UPDATE sessions SET deleted_at = now() WHERE id = $1`, session)
		}
	}

	path := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Write(t.Context(), path, from.Deployment)
	require.NoError(t, err)
	require.Equal(t, []string{string(session)}, m.Databases["everloop"].Gone)

	to := newPlace(t, emptied(t, testkit.Postgres(t)))
	require.NoError(t, restore(t, path, to))

	conn, err := pgx.Connect(t.Context(), to.url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	rows, err := conn.Query(t.Context(), `SELECT id FROM sessions WHERE deleted_at IS NULL`)
	require.NoError(t, err)
	live, err := pgx.CollectRows(rows, pgx.RowTo[domain.SessionID])
	require.NoError(t, err)
	require.Equal(t, []domain.SessionID{other.ID}, live)
}

// Rows of an earlier version of the schema are migrated after they were restored.
func TestRestore_earlierSchema(t *testing.T) {
	t.Parallel()

	notes := schema.Schema{Name: "notes", Lock: 1, Files: fstest.MapFS{
		"migrations/00001_notes.sql": {Data: []byte("-- +goose Up\nCREATE TABLE notes.notes (text text NOT NULL);")},
		"migrations/00002_marked.sql": {
			Data: []byte("-- +goose Up\nALTER TABLE notes.notes ADD COLUMN marked boolean NOT NULL DEFAULT true;"),
		},
	}}

	from := newPlace(t, emptied(t, testkit.Postgres(t)))
	from.Databases[0].Schemas = append(from.Databases[0].Schemas, migrated(notes))
	require.NoError(t, postgres.Migrate(t.Context(), from.url))
	require.NoError(t, notes.MigrateTo(t.Context(), from.url, 1))
	exec(t, from.url, `INSERT INTO notes.notes VALUES ('one')`)

	path := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Write(t.Context(), path, from.Deployment)
	require.NoError(t, err)
	require.EqualValues(t, 1, m.Databases["everloop"].Schemas["notes"])

	to := newPlace(t, emptied(t, testkit.Postgres(t)))
	to.Databases[0].Schemas = append(to.Databases[0].Schemas, migrated(notes))
	require.NoError(t, restore(t, path, to))

	conn, err := pgx.Connect(t.Context(), to.url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	var marked bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT marked FROM notes.notes WHERE text = 'one'`).Scan(&marked))
	require.True(t, marked)

	known := to.Deployment
	known.Databases[0].Schemas[0].Newest = 1

	require.ErrorContains(t, restore(t, path, to), "this program knows 1")
}
