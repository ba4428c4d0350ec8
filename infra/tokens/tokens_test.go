package tokens_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/infra/tokens"
)

func TestCounter_Count_exactForKnownTokenizers(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)
	for model, want := range map[string]string{
		"gpt-4o": "o200k_base", "gpt-4o-mini-2024-07-18": "o200k_base", "openai/gpt-5-mini": "o200k_base", "o3": "o200k_base",
		"gpt-4": "cl100k_base", "gpt-3.5-turbo": "cl100k_base", "GPT-4": "cl100k_base",
	} {
		name, exact := c.Tokenizer(model)
		require.True(t, exact, model)
		require.Equal(t, want, name, model)
	}

	for _, model := range []string{"", "everloop-demo", "o1ive", "gpt-40", "llama-3.1-8b", "qwen3"} {
		name, exact := c.Tokenizer(model)
		require.False(t, exact, model)
		require.Equal(t, tokens.EstimateTokenizer, name)
	}
	// Reference values of the published vocabularies.
	require.Equal(t, 2, c.Count("gpt-4o", "hello world"))

	for model, want := range map[string][]uint{"gpt-4o": {24912, 2375}, "gpt-4": {15339, 1917}} {
		_, _, ids := c.Encode(model, "hello world", 10)
		require.Equal(t, want, ids, model)
	}

	require.Equal(t, 0, c.Count("gpt-4o", ""))
	// A marker in a text is text.
	require.Greater(t, c.Count("gpt-4o", "<|endoftext|>"), 1)
}

func TestCounter_Template_byModelName(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)
	for model, want := range map[string]string{
		"gpt-4o": "openai", "openai/gpt-4.1-mini": "openai", "o3-mini": "openai", "openai/gpt-oss-20b": "harmony",
		"Qwen/Qwen3-8B":                    "chatml",
		"meta-llama/Llama-3.1-8B-Instruct": "llama3", "google/gemma-2-9b-it": "gemma", "deepseek-v3": "deepseek",
		"mistral-small": "mistral",
		"everloop-demo": "generic", "": "generic",
	} {
		template := c.Template(model)
		require.Equal(t, want, template.Name, model)
		require.Equal(t, want != "generic", template.Known, model)
		require.Positive(t, template.PerMessage, model)
	}

	require.NotEmpty(t, c.Template("qwen3").NoThinking)
	require.Empty(t, c.Template("gpt-4o").NoThinking, "it has no block for it")
}

func TestCounter_Encode_firstIDs(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)
	count, exact, ids := c.Encode("gpt-4o", strings.Repeat("word ", 100), 10)
	require.True(t, exact)
	require.Len(t, ids, 10)
	require.GreaterOrEqual(t, count, 100)
	count, exact, ids = c.Encode("llama", strings.Repeat("word ", 100), 10)
	require.False(t, exact)
	require.Empty(t, ids)
	require.Positive(t, count)

	_, exact, _ = c.Encode("gpt-4o", strings.Repeat("word ", tokens.MaxExact), 10)
	require.False(t, exact, "too much to be counted exactly")
}

var samples = map[string]string{
	"prose": `The quick brown fox jumps over the lazy dog, and few in the village remember why it ever mattered. ` +
		`Later that evening, the committee published an extraordinarily comprehensive report about the consequences.`,
	"code": "func (c *Counter) Count(model, text string) int {\n\tif n, exact := c.exactly(model, text); exact {\n\t\treturn n\n\t}\n" +
		"\treturn c.scaled(model, Estimate(text))\n}\n",
	"json": `{"tool_call_id":"call_018f6a","result":"12 files changed, 340 insertions(+), 27 deletions(-)",` +
		`"status":"done","duration_ms":1523}`,
	"german":  `Die Vertreterinnen der Gewerkschaft überreichten dem Geschäftsführer eine Unterschriftenliste für höhere Löhne.`,
	"chinese": `人工智能正在改变我们的生活方式,许多公司都在开发新的应用程序来提高工作效率。`,
	"log": "2026-11-21T12:00:01.234Z INFO  worker[42] activity completed id=model.call attempt=1 took=1.234s\n" +
		"2026-11-21T12:00:02.100Z WARN  worker[42] retry\n",
}

// The guess is held against a real vocabulary: within 40 % for each kind of text.
func TestEstimate_isNear(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)

	for name, text := range samples {
		text = strings.Repeat(text+"\n", 20)
		real, guess := c.Count("gpt-4o", text), tokens.Estimate(text)
		t.Logf("%s: %d tokens, estimated %d (%.2f)", name, real, guess, float64(guess)/float64(real))
		require.InDelta(t, real, guess, 0.4*float64(real), name)
	}

	require.Equal(t, 0, tokens.Estimate(""))
	require.Equal(t, 1, tokens.Estimate("a"))
	require.Equal(t, 1, tokens.Estimate("   "))
}

func TestCounter_Observe_learnsFromServer(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)
	text := strings.Repeat("some words of no importance ", 100)
	before := c.Count("llama", text)
	require.True(t, c.Due("llama"))

	for range 20 {
		c.Observe("llama", 1000, 1500)
	}

	require.False(t, c.Due("llama"), "just observed")
	require.InDelta(t, 1.5, float64(c.Count("llama", text))/float64(before), 0.02)
	require.Equal(t, before, c.Count("another", text))
	// Nonsense does not carry far, small prompts say nothing.
	c.Observe("wild", 1000, 1_000_000)
	require.Equal(t, 5*before, c.Count("wild", text))
	c.Observe("small", 10, 100)
	require.Equal(t, before, c.Count("small", text))
	require.False(t, c.Due("gpt-4o"), "it is known")
}

type ratios struct {
	mu   sync.Mutex
	kept map[string]float64
}

func (r *ratios) TokenRatios(context.Context) (map[string]float64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	return map[string]float64{"llama": r.kept["llama"]}, nil
}

func (r *ratios) KeepTokenRatio(_ context.Context, model string, ratio float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.kept[model] = ratio

	return nil
}

func TestCounter_sharesLearntRatios(t *testing.T) {
	t.Parallel()

	store := &ratios{kept: map[string]float64{}}
	worker := tokens.New(store, nil)
	worker.Observe("llama", 1000, 2000)
	require.Eventually(
		t, func() bool { store.mu.Lock(); defer store.mu.Unlock(); return store.kept["llama"] == 2 }, time.Minute, time.Millisecond,
	)

	api := tokens.New(store, nil)
	api.Load()
	require.Equal(t, 2*tokens.Estimate("hello there"), api.Count("llama", "hello there"))
}

// Hostile texts are answered quickly: no text may hold a processor.
func TestCounter_Count_hostileTextIsFast(t *testing.T) {
	t.Parallel()

	c := tokens.New(nil, nil)
	c.Count("gpt-4o", "the vocabulary is loaded")

	const large = tokens.MaxExact / 4 // the race detector makes it fifty times as slow
	for name, text := range map[string]string{
		"10 MB of words":    strings.Repeat("word ", 2<<20),
		"one long word":     strings.Repeat("a", large),
		"no letters":        strings.Repeat("\x00", large),
		"signs":             strings.Repeat("}{", large/2),
		"spaces":            strings.Repeat(" ", large),
		"pictures":          strings.Repeat("👩‍👩‍👧‍👦", 30_000),
		"not UTF-8":         strings.Repeat("\xff\xfe", 100_000),
		"10 MB of one word": strings.Repeat("z", 10<<20),
	} {
		for _, model := range []string{"gpt-4o", "gpt-4", "llama"} {
			began := time.Now()

			require.Positive(t, c.Count(model, text), name)

			took := time.Since(began)
			t.Logf("%s, %s: %s", name, model, took)
			require.Less(t, took, 3*time.Minute, "%s, %s", name, model)
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	text := strings.Repeat(samples["prose"]+samples["code"]+samples["json"], 1000)
	b.SetBytes(int64(len(text)))

	for b.Loop() {
		tokens.Estimate(text)
	}
}

func BenchmarkCountExactly(b *testing.B) {
	c := tokens.New(nil, nil)
	text := strings.Repeat(samples["prose"]+samples["code"]+samples["json"], 100)
	b.SetBytes(int64(len(text)))

	for b.Loop() {
		c.Count("gpt-4o", text)
	}
}
