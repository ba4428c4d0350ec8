package model

import (
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/domain"
)

// maxCount is the maximum valid count of tokens: larger integers are not exact in JSON.
const maxCount = 1 << 53

// number parses an integer, possibly in the form of a float or a string.
func number(v gjson.Result) (n int64, ok bool) {
	text := v.Raw
	if v.Type == gjson.String {
		text = strings.TrimSpace(v.String())
	} else if v.Type != gjson.Number {
		return 0, false
	}

	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > maxCount {
		return 0, false
	}

	return int64(f), true
}

// counts are the tokens of a call that the server has reported so far.
type counts struct {
	input, output, read, written int64
}

// Members with token counts. Servers use several at the same time.
var (
	inputCounts  = []string{"prompt_tokens", "input_tokens"}
	outputCounts = []string{"completion_tokens", "output_tokens"}
	// OpenAI, vLLM, SGLang, OpenRouter, xAI; Moonshot; DeepSeek; Anthropic through a gateway.
	readCounts = []string{
		"prompt_tokens_details.cached_tokens", "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens",
	}
	// OpenRouter; LiteLLM; Anthropic through a gateway.
	writtenCounts = []string{
		"prompt_tokens_details.cache_write_tokens", "prompt_tokens_details.cache_creation_tokens", "cache_creation_input_tokens",
	}
)

// add merges a report. A count that is missing or not positive does not change.
func (c *counts) add(usage gjson.Result) {
	if !usage.IsObject() {
		return
	}

	for to, names := range map[*int64][]string{
		&c.input: inputCounts[:1], &c.output: outputCounts[:1], &c.read: readCounts, &c.written: writtenCounts,
	} {
		if n := largest(usage, names); n > 0 {
			*to = n
		}
	}

	if c.input == 0 {
		c.input = largest(usage, inputCounts)
	}

	if c.output == 0 {
		c.output = largest(usage, outputCounts)
	}
}

func largest(usage gjson.Result, names []string) (most int64) {
	for _, name := range names {
		n, _ := number(usage.Get(name))
		most = max(most, n)
	}

	return most
}

// domain returns the usage. Cached tokens are included in the prompt's tokens.
func (c *counts) domain() domain.Usage {
	used := domain.Usage{InputTokens: c.input, OutputTokens: c.output}
	used.CacheReadTokens = min(c.read, used.InputTokens)
	used.CacheWriteTokens = min(c.written, used.InputTokens-used.CacheReadTokens)

	return used
}
