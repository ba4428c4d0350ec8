package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
)

// A stop of one chat leaves the others of its session alone, whichever of them runs.
func TestStore_RequestChatStop(t *testing.T) {
	t.Parallel()

	running := func(lastEndWorld) {}
	waiting := func(w lastEndWorld) {
		w.ask()
		_, err := w.store.ParkChat(w.t.Context(), contract.ParkChatIn{ChatID: w.chat})
		require.NoError(w.t, err)
	}
	ended := func(w lastEndWorld) {
		require.NoError(w.t, w.finish(contract.FinishChatIn{Reason: domain.FinishCompleted}))
	}

	for name, c := range map[string]struct {
		current func(lastEndWorld) // what the first chat of the session does
		queued  bool               // the queued chat is stopped, not the first
		stopped domain.Stopped
		first   chatNow
		behind  chatNow
	}{
		"queued behind a running chat": {
			running, true, domain.Stopped{Stopped: true}, chatNow{state: "running"}, chatNow{"ended", "interrupted", false},
		},
		"queued behind a waiting chat": {
			waiting, true,
			domain.Stopped{Stopped: true},
			chatNow{"parked", "awaiting_answer", false},
			chatNow{"ended", "interrupted", false},
		},
		"queued, and next": {
			ended, true, domain.Stopped{Stopped: true}, chatNow{"ended", "completed", false}, chatNow{"ended", "interrupted", false},
		},
		"running": {running, false, domain.Stopped{Stopped: true}, chatNow{"running", "", true}, chatNow{state: "queued"}},
		"waiting": {
			waiting, false,
			domain.Stopped{Stopped: true, Wake: true},
			chatNow{"ended", "awaiting_answer", false},
			chatNow{state: "queued"},
		},
		"ended already": {ended, false, domain.Stopped{}, chatNow{"ended", "completed", false}, chatNow{state: "queued"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newLastEndWorld(t)
			behind := w.queue()
			c.current(w)

			target := w.chat
			if c.queued {
				target = behind
			} else if c.first.stop {
				c.stopped.ChatID = w.chat
			}

			stopped, err := w.store.RequestChatStop(t.Context(), w.user.ID, w.session, target)
			require.NoError(t, err)
			require.Equal(t, c.stopped, stopped)
			require.Equal(t, []chatNow{c.first, c.behind}, []chatNow{w.now(w.chat), w.now(behind)})

			live, err := w.store.Live(t.Context(), w.session)
			require.NoError(t, err)

			if c.queued {
				require.Empty(t, live.Queue)
				require.Equal(t, behind, live.LastEnd.ChatID)
				require.Equal(t, domain.FinishInterrupted, live.LastEnd.FinishReason)
			} else {
				require.Len(t, live.Queue, 1)
			}

			_, total, err := w.store.OpenQuestions(t.Context(), w.user.ID, 0, 10)
			require.NoError(t, err)
			require.Equal(t, c.first.state == "parked", total == 1)
		})
	}
}

// A message that was to join a chat which is stopped in the queue gets its own chat.
func TestStore_RequestChatStop_keepsWhatWasToJoin(t *testing.T) {
	t.Parallel()

	w := newLastEndWorld(t)
	require.NoError(t, w.finish(contract.FinishChatIn{Reason: domain.FinishCompleted}))
	queued := w.queue()
	sent, err := w.store.Enqueue(t.Context(), w.user.ID, domain.Send{
		SessionID: w.session, Message: words("and this"), Delivery: domain.DeliverSteer, Trigger: domain.TriggerUser,
	})
	require.NoError(t, err)
	require.Equal(t, queued, sent.Ack.ChatID)

	_, err = w.store.RequestChatStop(t.Context(), w.user.ID, w.session, queued)
	require.NoError(t, err)
	require.Equal(t, chatNow{"ended", "interrupted", false}, w.now(queued))

	next, err := w.store.BeginChat(t.Context(), contract.BeginChatIn{SessionID: w.session, RunID: "r2"})
	require.NoError(t, err)
	require.NotEmpty(t, next.ChatID)
	require.NotEqual(t, queued, next.ChatID)
}

// chatNow is how far a chat is.
type chatNow struct {
	state, finish string
	stop          bool
}

func (w lastEndWorld) now(chat domain.ChatID) (c chatNow) {
	require.NoError(w.t, w.store.Pool.QueryRow(w.t.Context(), `
		SELECT state, coalesce(finish_reason, ''), stop_requested FROM chats WHERE id = $1`, chat).Scan(&c.state, &c.finish, &c.stop))

	return c
}
