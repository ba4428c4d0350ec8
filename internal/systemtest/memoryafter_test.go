package systemtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/service/memories"
)

func TestMemory_afterContentFromOutside(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	registry, err := builtin.New(tools.Deps{Workspaces: noFiles{}, Sandbox: plainShell{}, Background: s.tasks, Tasks: s.journal})
	require.NoError(t, err)
	store := memories.New(s.db.DB)
	registry.Provide(builtin.NewMemoryTool(store))
	s.useTools(registry)

	made, err := s.journal.CreateSession(t.Context(), s.caller.User.ID, domain.NewSession{
		MemoryEnabled: true, Setup: domain.SessionSetup{Permissions: []domain.PermissionRule{
			{Tool: "Bash", Pattern: "echo wait", Decision: domain.PermissionAsk},
		}},
	})
	require.NoError(t, err)

	remember := func(content string) obj {
		return obj{"name": "Memory", "arguments": obj{"action": "save", "content": content}}
	}
	ack := s.send(made.ID, script(obj{"steps": []obj{
		{"calls": []obj{remember("before")}},
		{"calls": []obj{bash("echo page"), bash("echo wait")}},
		{"calls": []obj{remember("after")}},
		{"text": "done"},
	}}))
	s.awaitEnd(made.ID, ack.ChatID)
	s.exec(`UPDATE tool_calls SET tool_name = 'WebFetch' WHERE session_id = $1 AND result LIKE 'page%'`, made.ID)
	s.permit(made.ID, s.asked(made.ID, 1)[0], 0, "")
	s.awaitEnds(made.ID, ack.ChatID, 2)

	question := s.asked(made.ID, 1)[0]
	require.Contains(t, string(question.Questions), "content: after")
	s.permit(made.ID, question, 0, "")
	s.awaitEnds(made.ID, ack.ChatID, 3)

	_, err = store.CreateMemory(t.Context(), s.caller.User.ID, domain.NewMemory{
		Type: domain.MemoryExperience, Content: "headless", DisabledAfter: ack.ChatID,
	})
	require.NoError(t, err)

	page, _, err := store.Memories(t.Context(), domain.MemoryQuery{UserID: s.caller.User.ID, Limit: 10})
	require.NoError(t, err)

	disabled := map[string]bool{}
	for _, memory := range page {
		disabled[memory.Content] = memory.Disabled
	}

	require.Equal(t, map[string]bool{"before": false, "after": false, "headless": true}, disabled)
}
