package replay

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/domain/transfer"
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

// shelf are objects of which only the keys count, and records that refuse.
type shelf struct {
	Store
	keys    []string
	created bool
}

func (s *shelf) SessionRecords(
	_ context.Context,
	id domain.SessionID,
	_ bool,
	frame func(transfer.SessionTree) error,
	entry func(transfer.EntryRecord) error,
) error {
	return errors.Join(frame(transfer.SessionTree{Chats: []transfer.ChatRecord{{ID: "c"}}}),
		entry(transfer.EntryRecord{
			ID:     "e",
			ChatID: "c",
			Kind:   domain.KindMessage,
			Role:   domain.RoleUser,
			Status: domain.TurnCompleted,
			LoopID: domain.RootLoop,
			Parts: []domain.ContentPart{
				{Type: "image_url", ImageURL: &domain.ImageURL{URL: domain.ObjectScheme + "images/" + string(id) + "/x"}},
			},
		}))
}

func (s *shelf) Events(context.Context, domain.SessionID, func(domain.LoggedEvent) error) error {
	return nil
}

func (s *shelf) CreateReplay(context.Context, replay.NewReplay) error {
	return errors.New("the database is away")
}

func (s *shelf) Replay(context.Context, domain.SessionID) (replay.Claim, error) {
	if s.created {
		return replay.Claim{}, nil
	}

	return replay.Claim{}, domain.Newf(domain.NotFound, "replay_not_found", "none")
}

func (s *shelf) Put(_ context.Context, key string, _ []byte) error {
	s.keys = append(s.keys, key)
	return nil
}
func (s *shelf) Get(context.Context, string) ([]byte, error) { return []byte("no script"), nil }
func (s *shelf) CopyPrefix(_ context.Context, _, to string) error {
	s.keys = append(s.keys, to+"x")
	return nil
}

func (s *shelf) DeletePrefix(_ context.Context, prefix string) error {
	s.keys = slices.DeleteFunc(s.keys, func(key string) bool { return strings.HasPrefix(key, prefix) })
	return nil
}

func TestAReplayThatIsNotMadeLeavesNothingBehind(t *testing.T) {
	t.Parallel()

	for _, created := range []bool{false, true} {
		s := &shelf{created: created}
		service := &Service{cfg: Config{Store: s, Events: s, Objects: s, Logger: slog.New(slog.DiscardHandler)}}
		_, err := service.Start(t.Context(), domain.User{ID: "u"}, domain.Session{ID: "s", Status: domain.SessionCompleted}, 1)
		require.ErrorContains(t, err, "the database is away")

		if created { // the answer was lost, not the row: it needs what is there
			require.Len(t, s.keys, 2)
		} else {
			require.Empty(t, s.keys)
		}

		_, err = service.Script(t.Context(), "k")
		require.True(t, domain.HasCode(err, "replay_damaged"), err)
	}
}
