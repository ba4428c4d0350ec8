package domain

// Usage is the usage of one or several model calls. Cached tokens are part of the input tokens.
type Usage struct {
	InputTokens      int64 `json:"input_tokens" doc:"Input tokens, those of the cache included." example:"2131"`
	OutputTokens     int64 `json:"output_tokens" doc:"Output tokens." example:"12"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty" doc:"Input tokens that the model server read from its cache; left out: none."`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty" doc:"Input tokens that the model server wrote to its cache; left out: none."`
	Cost             Cost  `json:"cost_usd,omitempty" doc:"Cost by the prices of the models; left out: none of the models has a price."`
	UncostedTokens   int64 `json:"uncosted_tokens,omitempty" doc:"Tokens of models without a price; left out: none, or all where there is no cost."`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + v.InputTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
		CacheReadTokens:  u.CacheReadTokens + v.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		Cost:             u.Cost + v.Cost,
		UncostedTokens:   u.UncostedTokens + v.UncostedTokens,
	}
}

// Tokens returns the tokens that count against a budget.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Shown returns the usage as clients see it: without the count of uncosted tokens where nothing
// has a cost.
func (u Usage) Shown() Usage {
	if u.Cost == 0 {
		u.UncostedTokens = 0
	}

	return u
}
