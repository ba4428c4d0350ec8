package board

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
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

// settled records what Settle does; anything else panics.
type settled struct {
	Store
	Chats

	posted, taken, answered []string
}

func (d *settled) PostQuestion(_ context.Context, _, questionID, content string) error {
	d.posted = append(d.posted, questionID+" "+content)
	return nil
}

func (d *settled) AnswerTaken(_ context.Context, _, _, commentID string) error {
	d.taken = append(d.taken, commentID)
	return nil
}

func (d *settled) Answer(_ context.Context, _ domain.Caller, _ domain.SessionID, answer domain.Answer) (domain.AnswerAck, error) {
	d.answered = append(d.answered, answer.ToolCallID)
	return domain.AnswerAck{Resolved: true}, nil
}

// Any member may comment: a comment answers a question of the agent, and never grants a
// permission, whatever it says.
func TestService_Settle_commentsGrantNoPermission(t *testing.T) {
	t.Parallel()

	for _, permission := range []bool{false, true} {
		d := &settled{}
		s := &Service{cfg: Config{Store: d, Chats: d}}
		asked := board.AskedInRun{
			RunID: "r", OwnerID: "u", SessionID: "s", QuestionID: "q", ToolCallID: "call", Permission: permission,
			Questions: []byte(`[{"question":"May I?","options":[{"label":"Allow"},{"label":"Deny"}]}]`),
		}
		require.NoError(t, s.Settle(t.Context(), asked))
		require.Len(t, d.posted, 1)

		asked.Posted, asked.CommentID, asked.Answer = true, "c", "Allow"
		require.NoError(t, s.Settle(t.Context(), asked))

		if permission {
			require.Empty(t, d.answered)
			require.Empty(t, d.taken)

			continue
		}

		require.Equal(t, []string{"call"}, d.answered)
		require.Equal(t, []string{"c"}, d.taken)
	}
}
