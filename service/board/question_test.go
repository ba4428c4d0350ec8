package board

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

const colours = `[{"question":"Which colour?","options":[{"label":"Red"},{"label":"Blue","description":"as the sky"}]},{"question":"Why?"}]`

func read(t *testing.T) (asked []askedQuestion) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(colours), &asked))

	return asked
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Which colour?\n- Red\n- Blue: as the sky\n\nWhy?\n\nThe next comment is the answer.", textOf(read(t), false))
	require.Contains(t, textOf(read(t), true), "answers this in their inbox")
}

func TestAnswerOf(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		text string
		want domain.Answer
	}{
		"an option":   {" blue ", domain.Answer{Selections: map[string][]int{"0": {1}}, Custom: map[string]string{"1": " blue "}}},
		"another one": {"Green", domain.Answer{Selections: map[string][]int{}, Custom: map[string]string{"0": "Green", "1": "Green"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tc.want.ToolCallID = "call"
			require.Equal(t, tc.want, answerOf("call", read(t), tc.text))
		})
	}
}
