package conversation_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
)

// The last end of a session is what its last chat:end says, however the chat ended, in its
// detail and in what a subscription starts with.
func TestStore_lastEndIsTheLastChatEnd(t *testing.T) {
	t.Parallel()

	finish := contract.FinishChatIn{Reason: domain.FinishFailed, Code: "model_refused", Message: "no"}
	cases := map[string]struct {
		prepare string // SQL with the chat as $1
		answer  string
		end     func(w lastEndWorld) error
		want    string // a part of the event
	}{
		"failed": {end: func(w lastEndWorld) error { return w.finish(finish) }, want: `"code":"model_refused"`},
		"a result": {
			prepare: `UPDATE chats SET headless = true, output_schema = '{"type":"object"}', steps = 2 WHERE id = $1`,
			answer:  `{"n": 12345678901234567890, "nul": "\u0000"}`,
			end:     func(w lastEndWorld) error { return w.finish(contract.FinishChatIn{Reason: domain.FinishCompleted}) },
			want:    `12345678901234567890`,
		},
		"waits for an answer": {
			end: func(w lastEndWorld) error {
				w.ask()
				_, err := w.store.ParkChat(w.t.Context(), contract.ParkChatIn{ChatID: w.chat})

				return err
			},
			want: `"awaiting_answer"`,
		},
		"abandoned": {
			end: func(w lastEndWorld) error {
				_, err := w.store.AbandonChat(w.t.Context(), w.chat, domain.CodeInternal, "lost")
				return err
			},
			want: `"lost"`,
		},
		"dropped with the queue": {
			end: func(w lastEndWorld) error {
				w.queue()
				_, err := w.store.RequestStop(w.t.Context(), w.user.ID, w.session, true)

				return err
			},
			want: `"interrupted"`,
		},
		"failed in the queue": {
			end: func(w lastEndWorld) error {
				queued := w.queue()

				return w.store.Update(w.t.Context(), func(tx *pg.Tx) error {
					return conversation.FailQueued(w.t.Context(), tx, w.session, queued, "snapshot_failed", "gone")
				})
			},
			want: `"snapshot_failed"`,
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newLastEndWorld(t)
			require.Nil(t, w.read(), "nothing has ended")

			if c.prepare != "" {
				_, err := w.store.Pool.Exec(t.Context(), c.prepare, w.chat)
				require.NoError(t, err)
			}

			if c.answer != "" {
				w.say(c.answer)
			}

			require.NoError(t, c.end(w))

			event := w.lastEvent()
			require.Contains(t, event, c.want)
			require.Equal(t, event, w.shown(w.read()))
		})
	}
}

// What a chat that runs or waits says of the end before it is the same until it ends.
func TestStore_lastEndStaysWhileANewerChatRuns(t *testing.T) {
	t.Parallel()

	w := newLastEndWorld(t)
	require.NoError(t, w.finish(contract.FinishChatIn{Reason: domain.FinishFailed, Code: "timeout", Message: "late"}))

	next := w.queue()
	_, err := w.store.BeginChat(t.Context(), contract.BeginChatIn{SessionID: w.session, RunID: "r2"})
	require.NoError(t, err)
	require.Equal(t, w.chat, w.read().ChatID)
	require.True(t, w.read().Error.Retryable)

	w.chat = next
	require.NoError(t, w.finish(contract.FinishChatIn{Reason: domain.FinishCompleted}))
	require.Equal(t, next, w.read().ChatID)
	require.Nil(t, w.read().Error)
}

type lastEndWorld struct {
	t       *testing.T
	store   *postgres.Store
	user    domain.User
	session domain.SessionID
	chat    domain.ChatID
}

func newLastEndWorld(t *testing.T) lastEndWorld {
	t.Helper()

	w := lastEndWorld{t: t}
	w.store, w.user, w.session, w.chat = pgtest.Running(t, pgtest.Open(t))

	return w
}

func (w lastEndWorld) finish(in contract.FinishChatIn) error {
	in.ChatID = w.chat
	_, err := w.store.FinishChat(w.t.Context(), in, nil)

	return err
}

// queue sends a message that waits, and returns its chat.
func (w lastEndWorld) queue() domain.ChatID {
	sent, err := w.store.Enqueue(w.t.Context(), w.user.ID, domain.Send{
		SessionID: w.session, Message: words("later"), Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	})
	require.NoError(w.t, err)

	return sent.Ack.ChatID
}

// say lets the chat answer with a text.
func (w lastEndWorld) say(text string, calls ...domain.PlannedCall) {
	key := domain.TurnKey{SessionID: w.session, ChatID: w.chat, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := w.store.OpenTurn(w.t.Context(), key, "m", 1, "")
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.CloseTurn(w.t.Context(), domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted,
		Blocks: []domain.Block{{Type: domain.BlockText, Content: text}}, Calls: calls,
	}))
}

// ask lets the chat ask a question.
func (w lastEndWorld) ask() {
	w.say("", domain.PlannedCall{ID: "call", ToolName: "AskUserQuestion", DisplayName: "Question", Arguments: "{}"})
	_, err := w.store.Pool.Exec(w.t.Context(), `
		INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, state)
		SELECT 'q', session_id, $1, entry_id, id, 'root', '[]', 'open' FROM tool_calls WHERE id = 'call'`, w.chat)
	require.NoError(w.t, err)
}

// read reads the last end as the detail has it, which is that of a subscription.
func (w lastEndWorld) read() *domain.LastEnd {
	session, _, err := w.store.ReadSession(w.t.Context(), w.user, w.session)
	require.NoError(w.t, err)
	live, err := w.store.Live(w.t.Context(), w.session)
	require.NoError(w.t, err)
	require.Equal(w.t, live.LastEnd, session.LastEnd)

	return session.LastEnd
}

func (w lastEndWorld) shown(end *domain.LastEnd) string {
	require.NotNil(w.t, end)
	data, err := json.Marshal(end.ChatEnded)
	require.NoError(w.t, err)

	return string(end.ChatID) + " " + string(data)
}

// lastEvent returns the last chat:end.
func (w lastEndWorld) lastEvent() string {
	var chat, data string

	require.NoError(w.t, w.store.Pool.QueryRow(w.t.Context(), `
		SELECT chat_id, data::text FROM outbox WHERE session_id = $1 AND name = 'chat:end' ORDER BY id DESC LIMIT 1`, w.session).
		Scan(&chat, &data))

	return chat + " " + data
}
