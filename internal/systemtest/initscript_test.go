package systemtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// The first model call comes after the init script, and the prompt says how that has
// ended. The command fails here, since the stack has no workspace that commands see.
func TestInitScript_comesBeforeTheFirstModelCall(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	made, err := s.journal.CreateSession(t.Context(), s.caller.User.ID, domain.NewSession{InitScript: "echo ready"})
	require.NoError(t, err)

	ack := s.send(made.ID, script(obj{"steps": []obj{{"text": "begun"}}}))

	require.Eventually(t, func() bool {
		session, _, err := s.journal.ReadSession(t.Context(), s.caller.User, made.ID)
		require.NoError(t, err)

		return session.Status == domain.SessionRunning && session.WaitingReason == domain.WaitingTool
	}, patience, 20*time.Millisecond)

	task := domain.InitTaskID(made.ID)
	require.NoError(t, s.runs.StartTask(t.Context(), contract.TaskInput{TaskID: task, SessionID: made.ID, OwnerID: s.caller.User.ID}))
	require.Equal(t, "completed", s.awaitEnd(made.ID, ack.ChatID)["status"])
	ended := s.tasksEnded(made.ID)
	require.Len(t, ended, 1)
	require.Equal(t, domain.TaskFailed, ended[0].Status)

	turns := s.messages(made.ID)
	require.Len(t, turns, 3)
	require.Equal(t, []domain.Role{domain.RoleUser, domain.RoleSystem, domain.RoleAssistant},
		[]domain.Role{turns[0].Role, turns[1].Role, turns[2].Role})
	require.True(
		t,
		strings.HasPrefix(turns[1].Blocks[0].Content, "Background task "+task+" (Init script) has ended: failed"),
		turns[1].Blocks,
	)
	s.replayRun("init_script", durable.SessionWorkflowID(string(made.ID)))
}
