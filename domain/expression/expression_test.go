package expression

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func zeros(n int) []any { return slices.Repeat([]any{0.0}, n) }

func TestHolds(t *testing.T) {
	t.Parallel()

	values := map[string]any{
		"score": 8.0, "lang": "de", "none": nil, "tags": []any{"go", "sql"}, "allowed": []any{"go", "sql", "js"}, "zeros": zeros(30_000),
		"people": []any{map[string]any{"name": "Ada", "age": 36.0}, map[string]any{"name": "Bo", "age": 12.0}},
	}

	for code, want := range map[string]bool{
		`score >= 7 and lang == "de"`: true, `score > 8 or lang in ["en", "fr"]`: false, `none == nil`: true, `len(tags) == 2`: true,
		`all(tags, # in allowed)`: true, `any(people, .age < 18)`: true, `count(people, .age > 18) == 1`: true,
		`filter(people, .age > 18) | map(.name) | join(", ") == "Ada"`: true, `sum(people, .age) == 48`: true,
		`lang matches "^d[e|a]$"`: true, `"x" not matches "y"`: true, `none matches "y"`: false, `upper(lang) == "DE"`: true,
		`let x = score * 2; x > 15`: true, `all(zeros, # == 0)`: true, `reduce(1..10, #acc + #, 0) == 55`: true,
		`repeat("ab", 3) == "ababab"`: true, `replace(lang, "d", "n") == "ne"`: true, `len(uniq(tags)) == 2`: true,
		`trim("xxay", "xy") == "a"`: true, `fromJSON("[1]")[0] == 1`: true, `toJSON(tags) contains "sql"`: true,
		`people[0]?.name == "Ada" ? true : false`: true, `groupBy(people, .age > 18)[true][0].name == "Ada"`: true,
		`sortBy(people, .age)[0].name == "Bo"`: true, `{"a": score}.a == 8`: true, `find(people, .name == "Bo").age == 12`: true,
	} {
		require.NoError(t, Check(code, []string{"score", "lang", "none", "tags", "allowed", "zeros", "people"}), code)

		holds, err := Holds(code, values, NewBudget())
		require.NoError(t, err, code)
		require.Equal(t, want, holds, code)
	}
}

func TestCheck_refusesUnbounded(t *testing.T) {
	t.Parallel()

	for _, code := range []string{
		`all(a, all(a, # != 1))`, `any(a, len(filter(a, # == 1)) > 0)`, `all(a, {let x = map(a, #); len(x) > 0})`,
		`count(a, sum(a) > 1 and any(a, true)) > 1`, `a matches "((x{30}){30}y){30}"`, `a()`, `a.b()`, `_charged(a)`,
		`a == "` + strings.Repeat("x", maxText) + `"`, strings.Repeat("!", 600) + "a",
	} {
		require.Error(t, Check(code, []string{"a"}), code)
	}
}

// Each of these takes minutes, or gigabytes, without a bound.
func TestHolds_boundsSteps(t *testing.T) {
	t.Parallel()

	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	values := map[string]any{
		"a": zeros(30_000), "text": strings.Repeat("x", MaxValue), "pattern": `(x|y|z){0,900}$`, "deep": deep,
		"wide": strings.Repeat("ä", MaxValue/2),
	}

	for _, code := range []string{
		`all(a, a == a)`, `all(a, # in a)`, `none(a, 1 in a)`, `all(a, len(toJSON(a)) > 0)`, `len(uniq(map(1..30000, #))) > 1`,
		`all(a, len(sort(a)) > 1)`,
		`let b = text + text; let c = b + b; let d = c + c; let e = d + d; let f = e + e; let g = f + f; let h = g + g; len(h + h) > 1`,
		`len(reduce(1..60, #acc + #acc, "xxxx")) > 1`, `len(reduce(1..60, [#acc, #acc], 1)) > 1`, `len(reduce(1..60, concat(#acc, #acc), a)) > 1`,
		`len(repeat(text, 100000)) > 1`, `len(replace(text, "", text)) > 1`, `len(join(map(a, "x"), text)) > 1`, `len(trim(wide, wide + "é")) > 1`,
		`text matches pattern`, `all(a, "` + strings.Repeat("x", 500) + `" matches "` + strings.Repeat("x?", 500) + `")`,
		`len(toJSON(fromJSON(deep))) > 1`, `len(1..1000000) > 1`, `len([1..90000, 1..90000]) > 1`, `all(1..99999, ` + strings.Repeat("!", 400) + `true)`,
		`all(a, len($env) > 0)`,
	} {
		budget := NewBudget()

		_, err := Holds(code, values, budget)
		require.Error(t, err, code)
		require.Regexp(t, "too many steps|memory budget|exceeds nesting|exceeded max depth", err.Error(), code)
		require.GreaterOrEqual(t, budget.left, 9*maxSteps, code)
	}
}

func TestHolds_boundsValues(t *testing.T) {
	t.Parallel()

	deep := any("x")
	for range maxNesting + 1 {
		deep = []any{deep}
	}

	for name, value := range map[string]any{
		"long text": strings.Repeat("x", MaxValue+1), "long list": zeros(MaxValue / 2), "deep list": deep,
		"long key": map[string]any{strings.Repeat("x", MaxValue): 1.0},
	} {
		_, err := Holds(`a == 1`, map[string]any{"a": value}, NewBudget())
		require.ErrorContains(t, err, "65536 bytes", name)
	}

	_, err := Holds(`a == 1`, map[string]any{"a": strings.Repeat("x", MaxValue)}, NewBudget())
	require.NoError(t, err)
}

// Many conditions share one budget.
func TestHolds_sharesBudget(t *testing.T) {
	t.Parallel()

	budget, ran := NewBudget(), 0

	for range 1000 {
		if _, err := Holds(`all(a, # == 0)`, map[string]any{"a": zeros(30_000)}, budget); err != nil {
			require.ErrorContains(t, err, errTooManySteps.Error())
			break
		}

		ran++
	}

	require.Greater(t, ran, 20)
	require.Less(t, ran, 200)
}
