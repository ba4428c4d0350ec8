package prompt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/tokens"
)

func TestSizes_Believe(t *testing.T) {
	t.Parallel()

	prompt := func(words int) domain.Prompt {
		return domain.Prompt{Model: "m", Messages: []domain.PromptMessage{Text("user", strings.Repeat("some words of text ", words/4))}}
	}

	for name, c := range map[string]struct {
		words    int
		reported int64
		doubted  bool
		cut      bool
	}{
		"as estimated":         {words: 20_000, reported: 21_000},
		"fewer":                {words: 20_000, reported: 12_000},
		"more":                 {words: 20_000, reported: 40_000},
		"cut to the window":    {words: 20_000, reported: 2051, doubted: true, cut: true},
		"cut to a larger one":  {words: 20_000, reported: 4096, doubted: true, cut: true},
		"counted otherwise":    {words: 20_000, reported: 7000},
		"a constant":           {words: 20_000, reported: 10, doubted: true},
		"little is not judged": {words: 400, reported: 60},
	} {
		counter := tokens.New(nil, nil)
		sizes := Sizes{Tokens: counter}
		p := prompt(c.words)
		before := counter.Count("m", p.Messages[0].Parts[0].Text)

		got := sizes.Believe(p, c.reported)
		require.Equal(t, c.cut, got.Cut, name)

		if !c.doubted {
			require.Equal(t, c.reported, got.Tokens, name)
			continue
		}

		require.Greater(t, got.Tokens, int64(c.words/2), name)
		require.Equal(t, before, counter.Count("m", p.Messages[0].Parts[0].Text), "nothing was learnt: "+name)
	}

	require.InDelta(t, 20_000, Sizes{Tokens: tokens.New(nil, nil)}.Believe(prompt(20_000), 0).Tokens, 10_000, "no report")
}

// TestSizes_serverMembers holds that what goes back to a model server counts.
func TestSizes_serverMembers(t *testing.T) {
	t.Parallel()

	members := `{"signature":"` + strings.Repeat("QmFzZTY0", 1000) + `"}`
	sizes := Sizes{Tokens: tokens.New(nil, nil)}
	least := int64(len(members)) / 8 // whatever a token holds of such a text

	for name, turn := range map[string]domain.TranscriptTurn{
		"of a message": {Role: domain.RoleAssistant, Model: "m", ServerMembers: members},
		"of a call":    {Role: domain.RoleAssistant, Model: "m", Calls: []domain.ToolCall{{ID: "a", ServerMembers: members}}},
	} {
		require.Greater(t, sizes.Turn("m", turn, false).Total(), least, name)
		require.Less(t, sizes.Turn("other", turn, false).Total(), least, "%s: another model is not sent them", name)
	}

	for name, message := range map[string]domain.PromptMessage{
		"of a message": {Role: "assistant", ServerMembers: members},
		"of a call":    {Role: "assistant", Calls: []domain.PromptCall{{ServerMembers: members}}},
	} {
		p := domain.Prompt{Model: "m", Messages: []domain.PromptMessage{message}}
		require.Greater(t, sizes.quick(p), least, name)

		estimated, _ := sizes.estimate(p)
		require.Greater(t, int64(estimated), least, name)
	}
}
