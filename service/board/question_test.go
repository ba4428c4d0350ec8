package board

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
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

// answering is a service of chats that records answers.
type answering struct {
	Chats

	answered []string
}

func (a *answering) Answer(_ context.Context, _ domain.Caller, _ domain.SessionID, answer domain.Answer) (domain.AnswerAck, error) {
	a.answered = append(a.answered, answer.ToolCallID)
	return domain.AnswerAck{Resolved: true}, nil
}

// Any member may comment: a comment answers a question of the agent, and never grants a
// permission.
func TestService_Ask_commentsGrantNoPermission(t *testing.T) {
	t.Parallel()
	d := newRunFixture(t)
	chats := &answering{}
	s := New(Deps{DB: d.db.DB, Chats: chats, Logger: slog.New(slog.DiscardHandler)})
	issue := d.issue()
	d.dispatch()
	_, chat := d.begin(issue.ActiveRun.ID)
	d.asks(chat, "question", "root")
	d.asks(chat, "permission", "root")
	_, err := d.db.Pool.Exec(t.Context(), `UPDATE questions SET guards = 'permission' WHERE id = 'permission'`)
	require.NoError(t, err)

	require.NoError(t, s.Ask(t.Context()))
	comments, _, err := s.Comments(t.Context(), d.ann.ID, d.workspace, issue.ID, 10, 0)
	require.NoError(t, err)
	require.Len(t, comments, 2, "both are posted")

	for range 2 {
		_, err = s.Comment(t.Context(), d.ann.ID, d.workspace, issue.ID, board.NewComment{Content: "Allow"})
		require.NoError(t, err)
		require.NoError(t, s.Ask(t.Context()))
	}

	require.Equal(t, []string{"question"}, slices.Compact(chats.answered))
}
