package systemtest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/modelcall"
	"everloop/activities/toolrun"
	"everloop/domain"
	"everloop/internal/durable"
)

// loseRun terminates the session's run, as a server that was restored from an
// older backup forgets it.
func (s *stack) loseRun(session domain.SessionID) {
	s.t.Helper()
	require.NoError(s.t, s.client.TerminateWorkflow(s.t.Context(), durable.SessionWorkflowID(string(session)), "", "lost"))
}

// wake starts a run without a history on the session's rows.
func (s *stack) wake(session domain.SessionID) {
	s.t.Helper()
	require.NoError(s.t, s.runs.Wake(s.t.Context(), domain.SessionRun{SessionID: session, OwnerID: s.caller.User.ID}))
}

func (s *stack) awaitFile(name string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.inWorkspaces(name)) > 0 }, patience, 10*time.Millisecond)
}

// inWorkspaces returns the paths of the files of a name in the workspaces of all sessions.
func (s *stack) inWorkspaces(name string) []string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "[^.]*", name))
	require.NoError(s.t, err)

	return found
}

const untilGo = "echo x >> runs; until [ -e go ]; do sleep 0.05; done; cat runs"

func TestNewRunGoesBackForCallsOfLostRun(t *testing.T) {
	t.Parallel()
	t.Run("alive", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		session := s.session()
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash(untilGo)}}, {"echo": true}}}))
		s.awaitFile("runs")
		s.loseRun(session)
		s.wake(session)
		s.write("go")
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		turns := s.messages(session)
		require.Equal(t, domain.CallDone, turns[1].ToolCalls[0].Status)
		require.Equal(t, "x", strings.TrimSpace(turns[1].ToolCalls[0].Result), "it ran once")
		require.NotContains(t, turns[2].Blocks[0].Content, "No result was recorded")
		s.checkEvents(session)
	})
	t.Run("worker lost", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		session := s.session()
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash(untilGo)}}, {"echo": true}}}))
		s.awaitFile("runs")
		s.loseRun(session)
		_, err := s.journal.Pool.Exec(t.Context(), `
			UPDATE tool_calls SET attempt = attempt + 1, claimed_by = NULL, takeover_announced = true,
			       lease_until = now() - interval '1 second'
			    WHERE session_id = $1`, session)
		require.NoError(t, err)
		s.wake(session)
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		turns := s.messages(session)
		require.Contains(t, turns[1].ToolCalls[0].Result, "outcome of this call is unknown")
		require.Equal(t, 2, s.modelCalls(`"model"`), "one call for each turn")
		s.checkEvents(session)
	})
	t.Run("question open", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		session := s.session()
		ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash(untilGo), ask()}}, {"text": "done"}}}))
		s.awaitFile("runs")
		s.loseRun(session)
		s.wake(session)
		s.write("go")
		require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		require.Len(t, s.messages(session), 2, "the model is not called before the answer")
		_, state, err := s.journal.OpenTurn(t.Context(), domain.TurnKey{
			SessionID: session, ChatID: ack.ChatID, LoopID: domain.RootLoop, Step: 2,
		}, "m", 1, "")
		require.NoError(t, err)
		require.Equal(t, domain.TurnBehind, state, "a run that began before the chat was parked waits for the answer too")
		s.answer(session, 0)
		s.awaitEnds(session, ack.ChatID, 2)
		turns := s.messages(session)
		require.Len(t, turns, 3)
		require.Equal(t, "x", strings.TrimSpace(turns[1].ToolCalls[0].Result))
		require.Equal(t, domain.CallDone, turns[1].ToolCalls[1].Status)
		s.checkEvents(session)
	})
}

// A sub-agent that was allowed while its chat had no run starts with the new run.
func TestNewRunKeepsSubAgentsThatHaveNotBegun(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Agent", Decision: domain.PermissionAsk}}})
	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{agent("guarded", obj{"text": "found it"})}}, {"text": "done"}}}))
	require.Equal(t, "awaiting_answer", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.loseRun(session)
	s.permit(session, s.asked(session, 1)[0], 0, "")
	s.awaitEnds(session, ack.ChatID, 2)
	call := ofLoop(s.messages(session), domain.RootLoop)[1].ToolCalls[0]
	require.Equal(t, domain.CallDone, call.Status, call.Result)
	require.Contains(t, call.Result, "found it")
}

var errAnswerLost = errors.New("the connection was lost before the answer to the commit")

// lossyLedger loses the answer to the first claim.
type lossyLedger struct {
	toolrun.Ledger
	asked atomic.Int32
}

func (l *lossyLedger) ClaimCall(ctx context.Context, id, claimant string) (domain.LedgerCall, domain.LedgerState, error) {
	call, state, err := l.Ledger.ClaimCall(ctx, id, claimant)
	if l.asked.Add(1) == 1 && err == nil {
		err = errAnswerLost
	}

	return call, state, err
}

func TestCallWhoseClaimWasNotAnsweredIsRunOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Tools.Ledger = &lossyLedger{Ledger: s.journal}
	session := s.setUp(domain.SessionSetup{Permissions: []domain.PermissionRule{{Tool: "Bash", Decision: domain.PermissionAsk}}})
	ack := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash("echo x >> runs; cat runs")}}, {"text": "done"}}}))
	s.awaitEnd(session, ack.ChatID)
	s.permit(session, s.asked(session, 1)[0], 0, "") // a call that was held back is not claimed with its turn
	s.awaitEnds(session, ack.ChatID, 2)
	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, domain.CallDone, call.Status)
	require.Equal(t, "x", strings.TrimSpace(call.Result))
}

// lossyEnds loses the answer to the first end of a turn.
type lossyEnds struct {
	modelcall.Turns
	asked atomic.Int32
}

func (l *lossyEnds) CloseAndClaim(ctx context.Context, turn domain.ClosingTurn) ([]domain.LedgerCall, error) {
	claimed, err := l.Turns.CloseAndClaim(ctx, turn)
	if l.asked.Add(1) == 1 && err == nil {
		return nil, errAnswerLost
	}

	return claimed, err
}

// The calls of a turn are claimed with its end. When the answer to that is lost,
// they are run all the same, and once.
func TestCallsOfATurnWhoseEndWasNotAnsweredAreRunOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Model.Turns, s.acts.Fast.Off = &lossyEnds{Turns: s.journal}, false
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{bash("echo x >> runs; cat runs"), bash("echo y >> other; cat other")}}, {"text": "done"},
	}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	turns := s.messages(session)
	require.Len(t, turns, 3, "the model is not called again")

	for i, ran := range []string{"x", "y"} {
		require.Equal(t, domain.CallDone, turns[1].ToolCalls[i].Status)
		require.Equal(t, ran, strings.TrimSpace(turns[1].ToolCalls[i].Result))
	}

	s.checkEvents(session)
}

// lossyTurns loses the answer to the first opening.
type lossyTurns struct {
	modelcall.Turns
	asked atomic.Int32
}

func (l *lossyTurns) OpenTurnIf(
	ctx context.Context, key domain.TurnKey, model string, maxConcurrent int, opener string, admit func(domain.NextTurn) bool,
) (domain.OpenedTurn, domain.TurnState, error) {
	turn, state, err := l.Turns.OpenTurnIf(ctx, key, model, maxConcurrent, opener, admit)
	if l.asked.Add(1) == 1 && err == nil {
		err = errAnswerLost
	}

	return turn, state, err
}

func TestTurnWhoseOpeningWasNotAnsweredIsUsed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Model.Turns = &lossyTurns{Turns: s.journal}
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"text": "hello"}}}))
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	turns := s.messages(session)
	require.Len(t, turns, 2, "no turn failed")
	require.Equal(t, "hello", turns[1].Blocks[0].Content)
	s.checkEvents(session)
}
