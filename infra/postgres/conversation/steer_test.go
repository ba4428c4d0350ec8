package conversation_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
)

// howItWorks returns what a chat was made to do.
func howItWorks(t *testing.T, db *postgres.DB, chat domain.ChatID) (mode domain.Mode, headless bool, schema string) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT mode, headless, coalesce(output_schema::text, '') FROM chats
		WHERE id = $1`, chat).
		Scan(&mode, &headless, &schema))

	return mode, headless, schema
}

func words(text string) []domain.ContentPart { return []domain.ContentPart{{Type: "text", Text: text}} }

// A message that joins a running chat cannot change how the chat works.
func TestEnqueue_steerCannotChangeTheChat(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	j, user, session, chat := pgtest.Running(t, db)
	for _, c := range []struct {
		send  domain.Send
		field string
	}{
		{domain.Send{Mode: domain.ModePlanning}, "body.mode"},
		{domain.Send{Headless: true}, "body.headless"},
		{domain.Send{Headless: true, OutputSchema: json.RawMessage(`{"type":"object"}`)}, "body.output_schema"},
		{domain.Send{Mode: domain.ModeExecuting}, ""},
		{domain.Send{}, ""},
	} {
		c.send.SessionID, c.send.Message, c.send.Delivery, c.send.Trigger = session, words("x"), domain.DeliverSteer, domain.TriggerUser

		out, err := j.Enqueue(t.Context(), user.ID, c.send)
		if c.field == "" {
			require.NoError(t, err)
			require.Equal(t, chat, out.Ack.ChatID)

			continue
		}

		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%v", err)
		require.Equal(t, c.field, domain.AsError(err).Fields[0].Location)
	}

	var queued int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM inbox WHERE session_id = $1
		AND kind = 'steer'`, session).Scan(&queued))
	require.Equal(t, 2, queued, "a refused message is not kept")
}

// A message that came too late for its chat works as it says itself.
func TestRequeueSteered_keepsItsOwnMode(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	_, err := db.Pool.Exec(
		t.Context(),
		`UPDATE chats SET mode = 'planning', headless = true, output_schema = '{"type": "object"}' WHERE id = $1`,
		chat,
	)
	require.NoError(t, err)

	schema := json.RawMessage(`{"type":"object"}`)
	for _, send := range []domain.Send{{}, {Mode: domain.ModePlanning, Headless: true}, {Headless: true, OutputSchema: schema}} {
		send.SessionID, send.Message, send.Delivery, send.Trigger = session, words("x"), domain.DeliverSteer, domain.TriggerUser
		_, err := j.Enqueue(t.Context(), user.ID, send)
		require.NoError(t, err)
	}

	_, err = j.FinishChat(t.Context(), contract.FinishChatIn{ChatID: chat, Reason: domain.FinishInterrupted}, nil)
	require.NoError(t, err)
	live, err := db.Live(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, live.Queue, 3)

	for i, want := range []struct {
		headless bool
		schema   string
	}{{false, ""}, {true, ""}, {true, `{"type": "object"}`}} {
		mode, headless, schema := howItWorks(t, db, live.Queue[i].ChatID)
		require.Equal(t, domain.ModePlanning, mode)
		require.Equal(t, want.headless, headless)
		require.Equal(t, want.schema, schema)
	}
}

// While a question is open a message joins the chat that asked. One that asks for
// another way of working comes next instead, as it says.
func TestEnqueue_messageInsteadOfAnAnswerKeepsItsOwnMode(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	ask := func(call string, step int) {
		key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: step}
		turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
		require.NoError(t, err)
		require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
			TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
			Calls: []domain.PlannedCall{{ID: call, ToolName: "AskUserQuestion", DisplayName: "Question", Arguments: "{}"}},
		}))
		_, err = db.Pool.Exec(t.Context(), `
			INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, state)
			VALUES ($1, $2, $3, $4, $5, 'root', '[]', 'open')`, domain.NewID(), session, chat, turn.EntryID, call)
		require.NoError(t, err)
	}
	send := func(s domain.Send) domain.SendAck {
		s.SessionID, s.Message, s.Delivery, s.Trigger = session, words("x"), domain.DeliverEnqueue, domain.TriggerUser
		out, err := j.Enqueue(t.Context(), user.ID, s)
		require.NoError(t, err)

		return out.Ack
	}

	ask("call_1", 1)

	ack := send(domain.Send{})
	require.Equal(t, domain.DeliverSteer, ack.DeliveryApplied)
	require.Equal(t, chat, ack.ChatID)

	ask("call_2", 2)

	ack = send(domain.Send{Mode: domain.ModePlanning, Headless: true})
	require.Equal(t, domain.DeliverEnqueue, ack.DeliveryApplied)
	require.Equal(t, 1, ack.Position)
	mode, headless, _ := howItWorks(t, db, ack.ChatID)
	require.Equal(t, domain.ModePlanning, mode)
	require.True(t, headless)
	live, err := db.Live(t.Context(), session)
	require.NoError(t, err)
	require.Empty(t, live.Questions, "the chat goes on without an answer")
}

// The mode of a message overrides that of its session, for that message.
func TestSetSessionMode(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, _ := pgtest.Running(t, db)
	changed, err := db.SetSessionMode(t.Context(), user, session, domain.ModePlanning)
	require.NoError(t, err)
	require.Equal(t, domain.ModePlanning, changed.Mode)

	for _, c := range []struct{ asked, want domain.Mode }{
		{"", domain.ModePlanning}, {domain.ModeExecuting, domain.ModeExecuting}, {domain.ModePlanning, domain.ModePlanning},
	} {
		out, err := j.Enqueue(t.Context(), user.ID, domain.Send{
			SessionID: session, Message: words("x"), Mode: c.asked, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
		})
		require.NoError(t, err)
		mode, _, _ := howItWorks(t, db, out.Ack.ChatID)
		require.Equal(t, c.want, mode)
	}

	bob := pgtest.User(t, db, "bob", false)
	_, err = db.SetSessionMode(t.Context(), bob, session, domain.ModeExecuting)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound), "%v", err)
}
