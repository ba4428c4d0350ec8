package prompt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestTurnMessages_sendsBackWhatTheModelServerGave(t *testing.T) {
	t.Parallel()

	assistant := func(model, field string) domain.TranscriptTurn {
		return domain.TranscriptTurn{
			Role: domain.RoleAssistant, Model: model, ReasoningField: field, ServerMembers: `{"signature":"turn"}`,
			Blocks: []domain.Block{
				{Type: domain.BlockThinking, Content: "h"},
				{Type: domain.BlockText, Content: "look"},
				{Type: domain.BlockThinking, Content: "m"},
			},
			Calls: []domain.ToolCall{
				{
					ID:            "call_own",
					ServerCallID:  "functions.Bash:0",
					ToolName:      "Bash",
					Arguments:     "{}",
					Status:        domain.CallDone,
					ServerMembers: `{"signature":"call"}`,
				},
			},
		}
	}
	user := domain.TranscriptTurn{Role: domain.RoleUser, Parts: []domain.ContentPart{{Type: "text", Text: "do"}}}
	note := domain.TranscriptTurn{Role: domain.RoleSystem, Blocks: []domain.Block{{Type: domain.BlockSystemNote, Content: "a task ended"}}}

	turns := []domain.TranscriptTurn{
		user, assistant("m", domain.Reasoning), user, assistant("m", domain.ReasoningContent), note, assistant("other", domain.Reasoning),
		assistant("m", ""),
	}
	for history, want := range map[domain.ReasoningHistory][]string{
		"":                       {"", "hm", "", ""},
		domain.ReasoningToolLoop: {"", "hm", "", ""},
		domain.ReasoningAll:      {"hm", "hm", "", ""},
		domain.ReasoningNone:     {"", "", "", ""},
	} {
		from := ReasoningFrom(turns, history)

		var reasoning, fields, ids []string

		for i, turn := range turns {
			for _, m := range turnMessages(turn, "m", i >= from, nil, nil) {
				if m.Role != "assistant" {
					continue
				}

				require.Equal(t, "call_own", m.Calls[0].ID)
				require.Equal(
					t,
					turn.Model == "m",
					m.ServerMembers == `{"signature":"turn"}`,
					"another model's members are not this server's",
				)
				require.Equal(t, turn.Model == "m", m.Calls[0].ServerMembers == `{"signature":"call"}`)
				reasoning, fields, ids = append(reasoning, m.Reasoning), append(fields, m.ReasoningField), append(ids, m.Calls[0].ServerID)
			}
		}

		require.Equal(t, want, reasoning, history)

		for i := range fields {
			require.Equal(t, reasoning[i] != "", fields[i] != "", history)
		}

		require.Equal(
			t, []string{"functions.Bash:0", "functions.Bash:0", "", "functions.Bash:0"}, ids, "another model's ids are not this server's",
		)
	}

	require.Equal(
		t, 0, ReasoningFrom([]domain.TranscriptTurn{assistant("m", domain.Reasoning)}, domain.ReasoningToolLoop),
		"the user's message was summarised",
	)
}
