package prompt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func image(url string) domain.ContentPart {
	return domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: url}}
}

func TestJoin(t *testing.T) {
	t.Parallel()

	user, agent := Text("user", "a"), Text("assistant", "b")
	called := domain.PromptMessage{Role: "assistant", Calls: []domain.PromptCall{{ID: "1"}}}
	result := domain.PromptMessage{Role: "tool", ToolCallID: "1"}
	picture := domain.PromptMessage{Role: "user", Parts: []domain.ContentPart{image("x")}}

	for name, c := range map[string]struct{ in, want []domain.PromptMessage }{
		"nothing":         {nil, nil},
		"alternating":     {[]domain.PromptMessage{user, agent, user}, []domain.PromptMessage{user, agent, user}},
		"three of a user": {[]domain.PromptMessage{user, user, user}, []domain.PromptMessage{Text("user", "a\n\na\n\na")}},
		"picture between texts": {[]domain.PromptMessage{user, picture, user}, []domain.PromptMessage{
			{Role: "user", Parts: []domain.ContentPart{user.Parts[0], image("x"), user.Parts[0]}},
		}},
		"answers":    {[]domain.PromptMessage{agent, agent}, []domain.PromptMessage{Text("assistant", "b\n\nb")}},
		"calls stay": {[]domain.PromptMessage{called, result, result, agent}, []domain.PromptMessage{called, result, result, agent}},
		"calls after text": {[]domain.PromptMessage{agent, called}, []domain.PromptMessage{
			{Role: "assistant", Parts: agent.Parts, Calls: called.Calls},
		}},
	} {
		require.Equal(t, c.want, join(c.in), name)
	}

	require.Equal(t, "a", user.Parts[0].Text, "messages that are joined are not changed")
}

// TestBuild_neighbours holds that a prompt has no two messages of users in a row, and that
// it starts with the prompt before it.
func TestBuild_neighbours(t *testing.T) {
	t.Parallel()

	said := func(text string) domain.TranscriptTurn {
		return domain.TranscriptTurn{Role: domain.RoleUser, ChatID: "c", Parts: []domain.ContentPart{{Type: "text", Text: text}}}
	}
	noted := domain.TranscriptTurn{
		Role:   domain.RoleSystem,
		ChatID: "c",
		Blocks: []domain.Block{{Type: domain.BlockSystemNote, Content: "note"}},
	}
	stopped := domain.TranscriptTurn{Role: domain.RoleAssistant, ChatID: "c", Status: domain.TurnInterrupted}
	transcript := domain.Transcript{
		Summary: "sum", Recalled: []domain.RecalledMemory{{ID: 1, Content: "tabs"}},
		Turns: []domain.TranscriptTurn{said("one"), stopped, said("two"), noted},
	}
	build := func() []domain.PromptMessage {
		return Build(Input{Chat: domain.ChatSettings{ID: "c"}, Transcript: transcript}).Messages
	}

	before := build()
	require.Len(t, before, 2)

	transcript.Turns = append(transcript.Turns, said("three"))
	after := build()
	require.Len(t, after, 2)
	require.Equal(t, before[1].Parts[0].Text+"\n\nthree", after[1].Parts[0].Text)
}
