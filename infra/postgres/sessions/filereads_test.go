package sessions_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
)

func TestFileReads(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "reader", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	reads := db.FileReads()
	seen := func(path string) (etag string) {
		require.NoError(t, reads.Change(t.Context(), session.ID, path, func(was string) (string, error) { etag = was; return "", nil }))
		return etag
	}

	require.Empty(t, seen("a"))
	require.NoError(t, reads.Record(t.Context(), session.ID, "a", "v1"))
	require.NoError(t, reads.Record(t.Context(), session.ID, "a", "v2"))
	require.Equal(t, "v2", seen("a"))
	require.Empty(t, seen("b"))

	require.NoError(t, reads.Change(t.Context(), session.ID, "b", func(string) (string, error) { return "v3", nil }))
	require.Equal(t, "v3", seen("b"), "what was written counts as read")

	refused := errors.New("refused")
	require.ErrorIs(t, reads.Change(t.Context(), session.ID, "b", func(string) (string, error) { return "v4", refused }), refused)
	require.Equal(t, "v3", seen("b"))
}

// A note of what was read does not wait for the disk; a claim does.
func TestFileReads_Record_commitsAsynchronously(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "reader", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	for _, statement := range []string{
		`CREATE TABLE commits (path text, setting text)`,
		`CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO commits VALUES (NEW.path, current_setting('synchronous_commit')); RETURN NULL; END $$`,
		`CREATE TRIGGER note AFTER INSERT ON file_reads FOR EACH ROW EXECUTE FUNCTION note_commit()`,
	} {
		_, err := db.Pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}

	reads := db.FileReads()
	require.NoError(t, reads.Record(t.Context(), session.ID, "read", "v1"))
	require.NoError(t, reads.Change(t.Context(), session.ID, "written", func(string) (string, error) { return "v2", nil }))

	for path, want := range map[string]string{"read": "off", "written": "on"} {
		var setting string
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT setting FROM commits WHERE path = $1`, path).Scan(&setting))
		require.Equal(t, want, setting, path)
	}
}

// Two stores stand for two processes: neither may lose the other's change.
func TestChangesOfOneFileAreOneAtATime(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "writer", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	content, here, there := 0, db.FileReads(), db.FileReads()
	require.NoError(t, here.Record(t.Context(), session.ID, "a", "0"))

	const each = 30

	var group sync.WaitGroup

	for i := range 2 * each {
		store := here
		if i%2 == 1 {
			store = there
		}

		group.Go(func() {
			err := store.Change(t.Context(), session.ID, "a", func(seen string) (string, error) {
				if seen != strconv.Itoa(content) {
					return "", errors.New("the version seen is not the version there is")
				}

				content++ // the race detector sees it when two are in here

				return strconv.Itoa(content), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}

	group.Wait()
	require.Equal(t, 2*each, content)
}

// A file system that hangs holds neither connections nor transactions.
func TestFileReads_hangingWritesLeaveTheDatabaseFree(t *testing.T) {
	t.Parallel()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	user := pgtest.User(t, db, "hangs", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	reads := db.FileReads()

	const hanging = 30

	started, answer := make(chan struct{}, hanging), make(chan struct{})

	var group sync.WaitGroup
	for i := range hanging {
		group.Go(func() {
			err := reads.Change(t.Context(), session.ID, fmt.Sprint("file", i), func(string) (string, error) {
				started <- struct{}{}

				<-answer

				return "v1", nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}

	for range hanging {
		<-started
	}

	require.Zero(t, db.Pool.Stat().AcquiredConns())
	require.NoError(t, reads.Change(t.Context(), session.ID, "another", func(string) (string, error) { return "v1", nil }))
	close(answer)
	group.Wait()
}

// The claim of a process that died is taken over when it has expired.
func TestFileReads_takesOverAnExpiredClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "dies", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	reads := db.FileReads()
	require.NoError(t, reads.Record(t.Context(), session.ID, "a", "v1"))
	_, err = db.Pool.Exec(t.Context(), `UPDATE file_reads SET changing_by = 'dead', changing_until = now() + interval '300 milliseconds'`)
	require.NoError(t, err)
	require.NoError(t, reads.Change(t.Context(), session.ID, "a", func(seen string) (string, error) {
		require.Equal(t, "v1", seen)
		return "v2", nil
	}))
}
