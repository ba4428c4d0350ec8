package recordings_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
	"everloop/service/recordings"
)

// shelf is an event log of one session that forgets its events when the test says so, and
// an object store in memory.
type shelf struct {
	recordings.Objects
	recordings.Runs
	t       *testing.T
	db      *postgres.DB
	archive *recordings.Service

	events  []domain.LoggedEvent
	objects map[string][]byte
	refused map[string]bool // sessions whose events cannot be read
	read    []string        // sessions whose events were read
}

// noFiles are the files of sessions without files.
type noFiles struct{ recordings.Files }

// newShelf returns the shelf of sessions whose chats have run for hours.
func newShelf(t *testing.T, sessions ...string) *shelf {
	t.Helper()

	s := &shelf{t: t, db: pgtest.Open(t), objects: map[string][]byte{}, refused: map[string]bool{}}
	owner := pgtest.User(t, s.db, "owner", false)

	var err error

	s.archive, err = recordings.New(recordings.Deps{
		DB: s.db.DB, Outbox: pg.NewOutbox(s.db.DB, &pgtest.Log{}, slog.New(slog.DiscardHandler)),
		Log: s, Objects: s, Files: noFiles{}, Runs: s, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)

	_, err = s.db.Pool.Exec(t.Context(), `
		WITH named AS (SELECT * FROM unnest($2::text[]) WITH ORDINALITY AS u (id, n)),
		made AS (
			INSERT INTO sessions (id, owner_id, sandbox_uid, active_branch_id) SELECT id, $1, 700000 + n, 'b' || id FROM named),
		branched AS (INSERT INTO branches (id, session_id, lineage, reason) SELECT 'b' || id, id, '[]', 'root' FROM named)
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, created_at)
		SELECT 'c' || id, id, 'b' || id, 'user', 'executing', 'running', now() - interval '5 hours' FROM named`, owner.ID, sessions)
	require.NoError(t, err)

	return s
}

// StartArchive archives what the workflow would archive.
func (s *shelf) StartArchive(ctx context.Context) error {
	_, err := s.archive.Page(ctx, "")
	return err
}

func (s *shelf) Read(ctx context.Context, session domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error {
	s.read = append(s.read, string(session))
	if s.refused[string(session)] {
		return errors.New("the log does not answer")
	}

	if ctx.Err() != nil {
		return ctx.Err()
	}

	for _, e := range s.events {
		if e.Seq > after && e.Seq <= upTo {
			if err := fn(e); err != nil {
				return err
			}
		}
	}

	return nil
}

func (s *shelf) Put(_ context.Context, key string, data []byte) error {
	s.objects[key] = data
	return nil
}

func (s *shelf) Get(_ context.Context, key string) ([]byte, error) { return s.objects[key], nil }

func (s *shelf) say(from, to, size int) {
	for n := from; n < to; n++ {
		data := fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", size))
		s.events = append(
			s.events,
			domain.LoggedEvent{Event: domain.Event{Name: "e", At: time.Unix(1, 0).UTC(), Data: []byte(data)}, Seq: uint64(n)},
		)
	}
}

func (s *shelf) exec(statement string) {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), statement)
	require.NoError(s.t, err)
}

// hoursPass makes the archives older.
func (s *shelf) hoursPass() {
	s.t.Helper()
	s.exec(`UPDATE event_archives SET created_at = created_at - interval '2 hours'`)
}

func (s *shelf) parts() int {
	s.t.Helper()
	list, err := s.archive.Archived(s.t.Context(), "s")
	require.NoError(s.t, err)

	return len(list)
}

// A chat that is longer than the log keeps events loses none of them: they are
// archived in parts while it runs, and large ones in several objects.
func TestService_ArchiveParts_longChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t, "s")
	s.say(1, 11, 10)
	require.NoError(t, s.archive.ArchiveParts(t.Context()))
	s.hoursPass()
	require.NoError(t, s.archive.ArchiveParts(t.Context()), "nothing new makes no part")
	require.Equal(t, 1, s.parts())
	s.events = nil // the log has forgotten them

	s.say(11, 91, 1<<20)
	require.NoError(t, s.archive.ArchiveParts(t.Context()))
	require.Equal(t, 4, s.parts(), "80 MB in parts of 32 MB")
	s.events = nil
	s.say(91, 95, 10)
	s.exec(`UPDATE chats SET state = 'ended', round = 1`)

	require.NoError(t, s.archive.ArchiveDue(t.Context()))
	require.Equal(t, 5, s.parts())

	due, err := s.archive.Unarchived(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, due)
	s.say(95, 97, 10) // of the next chat

	next := uint64(1)

	require.NoError(t, s.archive.Events(t.Context(), "s", func(e domain.LoggedEvent) error {
		require.Equal(t, next, e.Seq)
		next++

		return nil
	}))
	require.EqualValues(t, 97, next)
}

// A chat that cannot be archived, or has no new events, does not block others.
func TestService_ArchiveParts_reachesAllChats(t *testing.T) {
	t.Parallel()

	var all []string
	for n := range 130 {
		all = append(all, fmt.Sprintf("a%03d", n))
	}

	s := newShelf(t, all...)
	for n, id := range all {
		s.refused[id] = n < 60
	}

	require.ErrorContains(t, s.archive.ArchiveParts(t.Context()), "a000: the log does not answer", "the job has failed, and is counted")
	require.Equal(t, all, s.read)

	s.read, s.refused = nil, nil
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.archive.ArchiveParts(over))
	require.NoError(t, s.archive.ArchiveParts(t.Context()))
	require.Equal(t, all, s.read, "the next pass continues where one was interrupted")
}
