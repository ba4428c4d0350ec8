package domain

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Cost is an amount of money in billionths of the currency of the model list. It is an
// integer, so that sums are exact.
type Cost int64

// costUnit is one unit of the currency.
const costUnit = 1_000_000_000

// maxCost bounds the cost of one call, so that sums stay within 64 bits.
const maxCost = Cost(1_000_000 * costUnit)

// CostOf converts an amount of the currency, rounded to billionths.
func CostOf(amount float64) Cost {
	switch n := math.Round(amount * costUnit); {
	case math.IsNaN(n) || n <= 0:
		return 0
	case n >= math.MaxInt64:
		return math.MaxInt64
	default:
		return Cost(n)
	}
}

// Amount returns the cost in the currency as a float.
func (c Cost) Amount() float64 { return float64(c) / costUnit }

// String returns the exact decimal, such as 0.00015.
func (c Cost) String() string {
	sign, n := "", uint64(c)
	if c < 0 {
		sign, n = "-", -n
	}

	whole, rest := n/costUnit, n%costUnit
	if rest == 0 {
		return fmt.Sprintf("%s%d", sign, whole)
	}

	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, whole, rest), "0")
}

// MarshalJSON writes the exact decimal as a number.
func (c Cost) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalJSON parses a decimal number and rounds it to billionths.
func (c *Cost) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}

	var amount float64
	if err := json.Unmarshal(data, &amount); err != nil {
		return err
	}

	if amount < 0 || amount > 1000*maxCost.Amount() {
		return fmt.Errorf("%s is not a cost", data)
	}

	*c = CostOf(amount)

	return nil
}

// Price is the cost of a model for a million tokens.
type Price struct {
	Input      float64  `json:"input" doc:"Price of input tokens."`
	Output     float64  `json:"output" doc:"Price of output tokens."`
	CacheRead  *float64 `json:"cache_read,omitempty" doc:"Price of input tokens that are read from the cache; left out: that of input tokens."`
	CacheWrite *float64 `json:"cache_write,omitempty" doc:"Price of input tokens that are written to the cache; left out: that of input tokens."`
}

// maxPrice is the highest accepted price of a million tokens.
const maxPrice = 1_000_000

// Known reports whether all prices are valid amounts.
func (p *Price) Known() bool {
	if p == nil {
		return false
	}

	for _, price := range []float64{p.Input, p.Output, orPrice(p.CacheRead, 0), orPrice(p.CacheWrite, 0)} {
		if math.IsNaN(price) || price < 0 || price > maxPrice {
			return false
		}
	}

	return true
}

// Within reports whether tokens of every kind cost at most the other price. A model without a
// price can cost anything, so it is within only another unpriced model.
func (p *Price) Within(other *Price) bool {
	if p == nil || other == nil {
		return p == other
	}

	return p.Input <= other.Input && p.Output <= other.Output &&
		orPrice(p.CacheRead, p.Input) <= orPrice(other.CacheRead, other.Input) &&
		orPrice(p.CacheWrite, p.Input) <= orPrice(other.CacheWrite, other.Input)
}

func orPrice(price *float64, otherwise float64) float64 {
	if price == nil {
		return otherwise
	}

	return *price
}

// Charge sets the cost of one model call, rounded once to a billionth. Without a price
// all its tokens are uncosted.
func (p *Price) Charge(u Usage) Usage {
	u.Cost, u.UncostedTokens = 0, 0
	if p == nil {
		u.UncostedTokens = u.Tokens()
		return u
	}

	sum := new(big.Int) // in trillionths
	add := func(tokens int64, price float64) {
		perToken := int64(math.Round(price * 1e6)) // prices are taken with six decimals
		sum.Add(sum, new(big.Int).Mul(big.NewInt(tokens), big.NewInt(perToken)))
	}
	add(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, p.Input)
	add(u.CacheReadTokens, orPrice(p.CacheRead, p.Input))
	add(u.CacheWriteTokens, orPrice(p.CacheWrite, p.Input))
	add(u.OutputTokens, p.Output)
	sum.Add(sum, big.NewInt(500)).Quo(sum, big.NewInt(1000)) // round half up

	if u.Cost = maxCost; sum.IsInt64() {
		u.Cost = min(Cost(sum.Int64()), maxCost)
	}

	return u
}
