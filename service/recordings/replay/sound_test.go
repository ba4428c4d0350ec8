package replay

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
	"everloop/service/recordings"
)

// TestEventsThatAreNotSoundAreNotPlayed changes one field of one event after the
// other, as the author of an archive could: what is played is what the database
// hold.
func TestEventsThatAreNotSoundAreNotPlayed(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", true)

	for field, value := range map[string]any{
		"mode": "dreaming", "role": "god", "kind": "hologram", "loop_id": "elsewhere", "status": "golden",
		"parent_fork_tool_call_id": "call_x", "resolution": "perhaps", "text_delta": "a\x00b",
	} {
		for i, e := range r.events {
			var data map[string]any
			require.NoError(t, json.Unmarshal(e.Data, &data))

			if _, has := data[field]; !has && field != "parent_fork_tool_call_id" || e.Name == domain.EventChatEnd {
				continue
			}

			data[field] = value
			events := slices.Clone(r.events)
			changed, err := json.Marshal(data)
			require.NoError(t, err)

			events[i].Data = changed

			a := watch(t)
			for _, step := range r.script(events) {
				a.take(step)

				if field == "parent_fork_tool_call_id" && e.Name != domain.EventTurnStart {
					continue // it means nothing there
				}

				require.NotContains(
					t,
					string(step.Data),
					strings.Trim(string(mustJSON(value)), `"`),
					"%s of event %d, %s",
					field,
					i,
					e.Name,
				)
			}

			a.whole(r)
		}
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return data
}

func TestAReplayOfAReplayWaitsUntilItIsOver(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", false)
	src := newSource(r.session)
	require.NoError(t, src.frame(r.tree))
	require.NoError(t, src.entry(r.entries[0]))

	for status, want := range map[domain.ReplayStatus]string{
		domain.ReplayPlaying: replay.Running, domain.ReplayPaused: replay.Running, domain.ReplayFinished: "", domain.ReplayAutonomous: "",
	} {
		require.Equal(
			t,
			want,
			src.reason(domain.Session{Status: domain.SessionCompleted, Replay: &domain.ReplayState{Status: &status}}),
			status,
		)
	}
}

// shelf is an object store of which only the keys count, and an event log without events. It
// calls stored after each object.
type shelf struct {
	recordings.Objects
	keys   []string
	stored func()
}

func (s *shelf) Read(context.Context, domain.SessionID, uint64, uint64, func(domain.LoggedEvent) error) error {
	return nil
}

func (s *shelf) Put(_ context.Context, key string, _ []byte) error {
	s.keys = append(s.keys, key)
	return nil
}

func (s *shelf) Get(context.Context, string) ([]byte, error) { return []byte("no script"), nil }

func (s *shelf) CopyPrefix(_ context.Context, _, to string) error {
	s.keys = append(s.keys, to+"x")
	s.stored()

	return nil
}

func (s *shelf) DeletePrefix(_ context.Context, prefix string) error {
	s.keys = slices.DeleteFunc(s.keys, func(key string) bool { return strings.HasPrefix(key, prefix) })
	return nil
}

// engines are those that the test does not use.
type engines struct {
	recordings.Files
	recordings.Runs
}

func TestService_Start_rowIsNotWritten(t *testing.T) {
	t.Parallel()

	for name, unavailable := range map[string]bool{"refused": false, "database is unavailable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			db := pgtest.Open(t)
			user := pgtest.User(t, db, "owner", false)
			session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
			require.NoError(t, err)

			for _, statement := range []string{
				`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
				 SELECT 'c', id, active_branch_id, 'user', 'executing', 'ended' FROM sessions`,
				`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, parts)
				 SELECT 'e', id, active_branch_id, 0, 'c', 'user', 'completed',
				        jsonb_build_array(jsonb_build_object('type', 'image_url',
				            'image_url', jsonb_build_object('url', '` + domain.ObjectScheme + `images/' || id || '/x')))
				 FROM   sessions`,
				`UPDATE branches SET next_sequence = 1`,
				`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`,
				`CREATE TRIGGER refuse BEFORE INSERT ON replays FOR EACH ROW EXECUTE FUNCTION refuse()`,
			} {
				_, err = db.Pool.Exec(t.Context(), statement)
				require.NoError(t, err)
			}

			objects := &shelf{stored: func() {
				if unavailable {
					db.Close()
				}
			}}
			deps := recordings.Deps{
				DB: db.DB, Outbox: pg.NewOutbox(db.DB, &pgtest.Log{}, slog.New(slog.DiscardHandler)),
				Log: objects, Objects: objects, Files: engines{}, Runs: engines{}, Logger: slog.New(slog.DiscardHandler),
			}
			archive, err := recordings.New(deps)
			require.NoError(t, err)
			service, err := New(deps, archive)
			require.NoError(t, err)

			session.Status = domain.SessionCompleted
			_, err = service.Start(t.Context(), user, session, 1)
			require.Error(t, err)
			require.False(t, domain.HasCode(err, "replay_unsupported"), "%v", err)

			if unavailable { // the row may have been written: it needs its objects
				require.Len(t, objects.keys, 2)
			} else {
				require.Empty(t, objects.keys, "nothing is left")
			}

			_, err = service.Script(t.Context(), "k")
			require.True(t, domain.HasCode(err, "replay_damaged"), err)
		})
	}
}
