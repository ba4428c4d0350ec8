package domain

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrice_Charge(t *testing.T) {
	t.Parallel()

	cheap, dear := 0.05, 3.75
	for name, tc := range map[string]struct {
		price *Price
		used  Usage
		cost  string
		apart int64
	}{
		"no price":             {nil, Usage{InputTokens: 10, OutputTokens: 2}, "0", 12},
		"free":                 {&Price{}, Usage{InputTokens: 10, OutputTokens: 2}, "0", 0},
		"one token":            {&Price{Input: 0.15, Output: 0.6}, Usage{InputTokens: 1}, "0.00000015", 0},
		"tokens in and out":    {&Price{Input: 2, Output: 6}, Usage{InputTokens: 1000, OutputTokens: 500}, "0.005", 0},
		"cache without prices": {&Price{Input: 2}, Usage{InputTokens: 1000, CacheReadTokens: 900}, "0.002", 0},
		"cache": {
			&Price{Input: 3, CacheRead: &cheap, CacheWrite: &dear, Output: 15},
			Usage{InputTokens: 1000, CacheReadTokens: 600, CacheWriteTokens: 300, OutputTokens: 10},
			"0.001605", 0,
		},
		"finer than a billionth": {&Price{Input: 0.0375}, Usage{InputTokens: 1}, "0.000000038", 0},
		"beyond all bounds":      {&Price{Input: maxPrice}, Usage{InputTokens: math.MaxInt64}, "1000000", 0},
	} {
		got := tc.price.Charge(tc.used)
		require.Equal(t, tc.cost, got.Cost.String(), name)
		require.Equal(t, tc.apart, got.UncostedTokens, name)
	}
}

func TestPrice_Charge_sumsExactly(t *testing.T) {
	t.Parallel()

	price := &Price{Input: 0.1}

	var sum Usage
	for range 1000 {
		sum = sum.Add(price.Charge(Usage{InputTokens: 1}))
	}

	require.Equal(t, "0.0001", sum.Cost.String(), "a thousand times a tenth of a millionth")
}

func TestCost_JSON(t *testing.T) {
	t.Parallel()

	for text, cost := range map[string]Cost{"0": 0, "0.000000001": 1, "1.5": 1_500_000_000, "1000000": maxCost} {
		written, err := json.Marshal(cost)
		require.NoError(t, err)
		require.Equal(t, text, string(written))

		var read Cost
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, cost, read)
	}

	for _, bad := range []string{`-1`, `1e300`, `"1"`, `{}`} {
		var read Cost
		require.Error(t, json.Unmarshal([]byte(bad), &read), bad)
	}

	require.Equal(t, "-0.5", Cost(-500_000_000).String())
}

func TestUsage_Shown(t *testing.T) {
	t.Parallel()
	require.Equal(t, Usage{InputTokens: 3}, Usage{InputTokens: 3, UncostedTokens: 3}.Shown())
	mixed := Usage{InputTokens: 3, UncostedTokens: 1, Cost: 5}
	require.Equal(t, mixed, mixed.Shown())

	text, err := json.Marshal(Usage{InputTokens: 3, OutputTokens: 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"input_tokens":3,"output_tokens":1}`, string(text))
}

func TestBudget_Exhausted_byCost(t *testing.T) {
	t.Parallel()

	most := 0.3
	b := Budget{MaxCost: &most}
	require.Empty(t, b.Exhausted(0, CostOf(0.299999999)))
	require.Equal(t, "the session has cost 0.3 of the 0.3 that its budget allows", b.Exhausted(0, CostOf(0.1)+CostOf(0.2)))
}
