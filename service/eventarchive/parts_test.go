package eventarchive_test

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
	"everloop/domain/transfer"
	"everloop/service/eventarchive"
)

// shelf keeps records, events and objects of one session in memory. Its log
// forgets its events when the test says so.
type shelf struct {
	parts   []transfer.EventArchive
	rounds  int
	running bool
	ended   bool
	events  []domain.LoggedEvent
	objects map[string][]byte
	others  []string        // sessions with running chats besides s
	refused map[string]bool // sessions whose events cannot be read
	read    []string        // sessions whose events were read
	archive *eventarchive.Service
}

func (s *shelf) PostponeArchive(context.Context, transfer.UnarchivedChat) error { return nil }

// StartArchive archives at once what the workflow would archive.
func (s *shelf) StartArchive(ctx context.Context) error {
	_, err := s.archive.Page(ctx, "")
	return err
}

func (s *shelf) Unarchived(context.Context, string, int) ([]transfer.UnarchivedChat, error) {
	if !s.ended || s.rounds > 0 {
		return nil, nil
	}

	return []transfer.UnarchivedChat{{ChatID: "c", SessionID: "s", Round: 1}}, nil
}

func (s *shelf) Archived(context.Context, domain.SessionID) ([]transfer.EventArchive, error) {
	return s.parts, nil
}

func (s *shelf) KeepArchive(_ context.Context, chat transfer.UnarchivedChat, made transfer.EventArchive) error {
	if made.Events > 0 {
		s.parts = append(s.parts, made)
	}

	s.rounds = chat.Round

	return nil
}

func (s *shelf) LongRunning(_ context.Context, _ time.Duration, after string, limit int) ([]string, error) {
	var found []string

	all := s.others
	if s.running {
		all = append(all, "s")
	}

	for _, id := range all {
		if id > after && len(found) < limit {
			found = append(found, id)
		}
	}

	return found, nil
}

func (s *shelf) KeepPart(_ context.Context, made transfer.EventArchive) (bool, error) {
	s.parts = append(s.parts, made)
	return true, nil
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

// A chat that is longer than the log keeps events loses none of them: they are
// archived in parts while it runs, and large ones in several objects.
func TestArchive_ArchiveParts_archivesLongChats(t *testing.T) {
	s := &shelf{running: true, objects: map[string][]byte{}}
	a, err := eventarchive.New(eventarchive.Config{Store: s, Log: s, Objects: s, Runs: s, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	s.archive = a
	s.say(1, 11, 10)
	require.NoError(t, a.ArchiveParts(t.Context()))
	require.NoError(t, a.ArchiveParts(t.Context()), "nothing new makes no part")
	require.Len(t, s.parts, 1)
	s.events = nil // the log has forgotten them

	s.say(11, 91, 1<<20)
	require.NoError(t, a.ArchiveParts(t.Context()))
	require.Len(t, s.parts, 4, "80 MB in parts of 32 MB")
	s.events = nil
	s.say(91, 95, 10)
	s.running, s.ended = false, true

	require.NoError(t, a.ArchiveDue(t.Context()))
	require.Len(t, s.parts, 5)
	require.Equal(t, 1, s.rounds)
	s.say(95, 97, 10) // of the next chat

	next := uint64(1)

	require.NoError(t, a.Events(t.Context(), "s", func(e domain.LoggedEvent) error {
		require.Equal(t, next, e.Seq)
		next++

		return nil
	}))
	require.EqualValues(t, 97, next)
}

// Chats that cannot be archived, or have said nothing new, keep no other from it.
func TestArchive_ArchiveParts_reachesAllChats(t *testing.T) {
	t.Parallel()

	s := &shelf{objects: map[string][]byte{}, refused: map[string]bool{}}

	for n := range 130 {
		id := fmt.Sprintf("a%03d", n)
		s.others = append(s.others, id)
		s.refused[id] = n < 60
	}

	a, err := eventarchive.New(eventarchive.Config{Store: s, Log: s, Objects: s, Runs: s, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	require.ErrorContains(t, a.ArchiveParts(t.Context()), "a000: the log does not answer", "the job has failed, and is counted")
	require.Equal(t, s.others, s.read)

	s.read, s.refused = nil, nil
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, a.ArchiveParts(over))
	require.NoError(t, a.ArchiveParts(t.Context()))
	require.Equal(t, s.others, s.read, "the next pass goes on where one was interrupted")
}
