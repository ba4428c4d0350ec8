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
