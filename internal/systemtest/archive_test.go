package systemtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/objects"
	"everloop/infra/temporal"
	"everloop/internal/testkit"
	"everloop/service/files"
	"everloop/service/recordings"
)

// unreadable is an event log that cannot read the sessions whose id starts with
// "broken".
type unreadable struct{ recordings.Log }

func (u unreadable) Read(ctx context.Context, sessionID domain.SessionID, after, upTo uint64, fn func(domain.LoggedEvent) error) error {
	if strings.HasPrefix(string(sessionID), "broken") {
		return errors.New("the log cannot be read")
	}

	return u.Log.Read(ctx, sessionID, after, upTo, fn)
}

// TestArchive_failuresKeepNoChatFromIt has sixty chats that cannot be archived
// before one that can, more than a page.
func TestArchive_failuresKeepNoChatFromIt(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bucket := testkit.Objects(t)
	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	runs := temporal.Runs{Client: s.client, Queue: s.queue, Archive: "archive/" + s.queue}
	kept, err := recordings.New(s.recorded(unreadable{s.log}, store, files.Carrier{}, runs))
	require.NoError(t, err)
	kept.Register(s.worker)
	require.NoError(t, kept.ArchiveDue(t.Context()), "there is nothing to archive, and nothing is started")
	_, err = s.client.DescribeWorkflowExecution(t.Context(), runs.Archive, "")
	require.Error(t, err)

	_, err = s.journal.Pool.Exec(t.Context(), `
		WITH made AS (
			INSERT INTO sessions (id, owner_id, sandbox_uid, active_branch_id)
			SELECT 'broken' || n, $1, 700000 + n, 'b' || n FROM generate_series(1, 60) n RETURNING id),
		branched AS (INSERT INTO branches (id, session_id, lineage, reason) SELECT 'b' || substr(id, 7), id, '[]', 'root' FROM made
		    RETURNING id, session_id)
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, round)
		SELECT '00' || id, session_id, id, 'user', 'executing', 'ended', 1 FROM branched`, s.caller.User.ID)
	require.NoError(t, err)

	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"text": "done"}}}))
	s.awaitEnd(session, ack.ChatID)
	require.Eventually(t, func() bool {
		chats, err := kept.Unarchived(t.Context(), "00c", 10)
		return err == nil && len(chats) == 1
	}, patience, 10*time.Millisecond, "its events are all published")

	require.NoError(t, kept.ArchiveDue(t.Context()))
	require.NoError(t, kept.ArchiveDue(t.Context()), "while it is open, nothing more is started")
	s.replayRun("archive", runs.Archive)
	list, err := kept.Archived(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, list, 1)

	var texts int

	require.NoError(t, kept.Events(t.Context(), session, func(e domain.LoggedEvent) error {
		if e.Name == domain.EventChatEnd {
			texts++
		}

		return nil
	}))
	require.Equal(t, 1, texts)

	// However long all that took: they are due some seconds after they failed, and not before.
	postponed, err := s.journal.Pool.Exec(t.Context(), `
		UPDATE chats SET archive_after = archive_after + interval '1 hour' WHERE archive_tries > 0`)
	require.NoError(t, err)
	require.EqualValues(t, 60, postponed.RowsAffected())

	left, err := kept.Unarchived(t.Context(), "", 100)
	require.NoError(t, err)
	require.Empty(t, left, "those that failed are left for later")
}
