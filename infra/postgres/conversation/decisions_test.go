package conversation_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
)

// decisions is a session with a chat, a sub-agent and tool calls, whose states a test
// sets. Some statements test and write in one round trip: the conditions in them must
// give the answers of domain/chat.
type decisions struct {
	t     *testing.T
	store *postgres.Store
	owner string
	id    domain.SessionID // of the session
}

func newDecisions(t *testing.T) decisions {
	t.Helper()
	store, _, session := pgtest.Session(t)
	d := decisions{t: t, store: store, owner: session.OwnerID, id: session.ID}
	d.set(`INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ('chat', $1, $2, 'user', 'executing', 'running')`,
		session.ID, session.ActiveBranchID)

	for i, loop := range []string{domain.RootLoop, "sub"} {
		d.set(`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, loop_id)
			VALUES ('turn of ' || $1::text, $2, $3, $4, 'chat', 'assistant', 'completed', $1)`, loop, session.ID, session.ActiveBranchID, i)
	}

	for i, call := range []string{"sub", "of root", "of sub", "asks", "asks more"} {
		turn := "turn of root"
		if call == "of sub" {
			turn = "turn of sub"
		}

		d.set(`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
			VALUES ($1, $2, 'chat', $3, $4, 'Bash', 'Bash', '{}', 'pending', 'queued')`, call, session.ID, turn, i)
	}

	d.set(`INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, depth, agent_type, description, prompt, max_steps,
		time_limit_s)
		VALUES ('sub', $1, 'chat', $2, 'root', 1, 'general', 'd', 'p', 1, 1)`, session.ID, session.ActiveBranchID)
	d.set(`INSERT INTO background_tasks (id, session_id, chat_id, kind, title, status)
		VALUES ('task', $1, 'chat', 'agent', 't', 'running')`, session.ID)

	return d
}

func (d decisions) set(sql string, args ...any) {
	d.t.Helper()
	_, err := d.store.Pool.Exec(d.t.Context(), sql, args...)
	require.NoError(d.t, err)
}

var chatStates = []domain.ChatState{domain.ChatStateQueued, domain.ChatStateRunning, domain.ChatStateWaiting, domain.ChatStateEnded}

func TestStore_ClaimCall_agreesWithAlive(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)

	works := []chat.Work{{}}
	for _, loop := range []domain.LoopState{
		domain.LoopReserved, domain.LoopQueued, domain.LoopRunning,
		domain.LoopWaiting, domain.LoopEnded,
	} {
		works = append(
			works,
			chat.Work{Loop: loop},
			chat.Work{Loop: loop, Background: true},
			chat.Work{Loop: loop, Background: true, TaskRunning: true},
		)
	}

	for _, state := range chatStates {
		for _, stop := range []bool{false, true} {
			for _, work := range works {
				work.Chat, work.StopRequested = state, stop

				call := "of root"
				if work.Loop != "" {
					call = "of sub"

					d.set(`UPDATE loops SET state = $1, task_id = CASE WHEN $2::boolean THEN 'task' END`, work.Loop, work.Background)
				}

				d.set(`UPDATE chats SET state = $1, stop_requested = $2`, state, stop)
				d.set(`UPDATE tool_calls SET phase = 'queued', lease_until = NULL WHERE id = $1`, call)

				for _, task := range []string{
					`UPDATE background_tasks SET status = 'completed', stop_requested = false`,
					`UPDATE background_tasks SET status = 'running', stop_requested = true`,
				} {
					if work.TaskRunning {
						task = `UPDATE background_tasks SET status = 'running', stop_requested = false`
					}

					d.set(task)
					d.set(`UPDATE tool_calls SET phase = 'queued', lease_until = NULL WHERE id = $1`, call)
					_, got, err := d.store.ClaimCall(t.Context(), call, "")
					require.NoError(t, err)

					want := chat.ClaimCall(chat.Call{Phase: domain.PhaseQueued, Permitted: true, Alive: work.Alive()})
					require.Equal(t, want, got, "%+v", work)
				}
			}
		}
	}
}

func TestStore_ClaimCall_agreesWithTheDecision(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	d.set(`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, guards)
		VALUES ('q', $1, 'chat', 'turn of root', 'asks', 'root', '[]', 'of root')`, d.id)

	both := []bool{false, true}

	for _, phase := range []string{domain.PhaseQueued, domain.PhaseRunning, domain.PhaseFinished, domain.PhaseUnknownOutcome} {
		for n := range 32 {
			call := chat.Call{
				Phase: phase, Alive: both[n&1], Permitted: both[n>>1&1], Held: both[n>>2&1], Own: both[n>>3&1], Announced: both[n>>4&1],
			}
			if phase == domain.PhaseQueued && (call.Held || call.Own || call.Announced) {
				continue // nothing holds a call that is only reserved
			}

			d.set(`UPDATE chats SET stop_requested = NOT $1::boolean`, call.Alive)
			d.set(`UPDATE questions SET state = CASE WHEN $1::boolean THEN 'answered' ELSE 'open' END`, call.Permitted)
			d.set(`
				UPDATE tool_calls SET phase = $1, takeover_announced = $4, claimed_by = CASE WHEN $3::boolean THEN 'me' ELSE 'other' END,
				       lease_until = now() + CASE WHEN $2::boolean THEN interval '1 hour' ELSE interval '-1 hour' END
				WHERE  id = 'of root'`, phase, call.Held, call.Own, call.Announced)
			_, got, err := d.store.ClaimCall(t.Context(), "of root", "me")
			require.NoError(t, err)
			require.Equal(t, chat.ClaimCall(call), got, "%+v", call)
		}
	}
}

// After an outage the leases of live workers have ended. The first claim of another worker gives
// them time to renew theirs; the claim after that time takes the call of a dead worker over.
func TestStore_ClaimCall_announcesTakeover(t *testing.T) {
	t.Parallel()

	d := newDecisions(t)

	const call = "of root"

	claim := func(claimant string) domain.LedgerState {
		_, state, err := d.store.ClaimCall(t.Context(), call, claimant)
		require.NoError(t, err)

		return state
	}
	expire := func() { d.set(`UPDATE tool_calls SET lease_until = now() - interval '1 second' WHERE id = $1`, call) }

	d.set(`UPDATE tool_calls SET phase = 'queued', status = 'pending', attempt = 0 WHERE id = $1`, call)
	require.Equal(t, domain.CallClaimed, claim("alive"))

	for range 2 { // a renewal takes the announcement back
		expire()
		require.Equal(t, domain.CallHeld, claim("other"))
		require.Equal(t, domain.CallHeld, claim("other"))
		require.NoError(t, d.store.RenewCall(t.Context(), call, 1))
	}

	expire()
	require.Equal(t, domain.CallHeld, claim("other"))
	expire()
	require.Equal(t, domain.CallAbandoned, claim("other"))
	require.ErrorIs(t, d.store.RenewCall(t.Context(), call, 1), domain.ErrFenced)
}

func TestStore_ResolveQuestion_agreesWithResumes(t *testing.T) {
	t.Parallel()

	d := newDecisions(t)
	for i, call := range []string{"asks", "asks more"} {
		d.set(`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions)
			VALUES ($1, $2, 'chat', 'turn of root', $3, 'root', '[]')`, fmt.Sprint("q", i), d.id, call)
	}

	for _, state := range chatStates {
		for _, open := range []int{0, 1} {
			d.set(`UPDATE chats SET state = $1, round = 1`, state)
			d.set(`UPDATE questions SET state = CASE WHEN id = 'q0' OR $1::int = 1 THEN 'open' ELSE 'answered' END`, open)
			question := domain.Question{
				ID:         "q0",
				SessionID:  d.id,
				ChatID:     "chat",
				TurnID:     "turn of root",
				ToolCallID: "asks",
				LoopID:     domain.RootLoop,
			}
			resolved, err := d.store.ResolveQuestion(t.Context(), d.owner, question, "user", `{}`)
			require.NoError(t, err)
			require.True(t, resolved)
			rows, _ := d.store.Pool.Query(t.Context(), `SELECT round = 2 FROM chats`)
			resumed, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
			require.NoError(t, err)
			require.Equal(t, chat.Resumes(state, open, false), resumed, "%s with %d open questions", state, open)
		}
	}
}
