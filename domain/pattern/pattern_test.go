package pattern

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompile_boundsInstructions(t *testing.T) {
	t.Parallel()

	for _, text := range []string{`^a+b$`, `(foo|bar){3,5}`, `[\p{L}]{1,64}`, `(?i)error: \d+`} {
		form, err := Compile(text)
		require.NoError(t, err, text)
		require.Positive(t, form.Instructions)
	}

	for _, text := range []string{`(abcdefghijklmnopqrstuvwxyz){1000}`, `(a{10}bcdefghijklmnopqrstuvwxyz){99}(a{10}bcdefghijklmnopqrstuvwxyz){99}`, strings.Repeat("(abcde){900}", 4)} {
		_, err := Compile(text)
		require.Equal(t, &syntax.Error{Code: syntax.ErrLarge, Expr: text[:min(len(text), 100)]}, err, text)
	}
}

func TestMatch_boundsCombinations(t *testing.T) {
	t.Parallel()

	require.True(t, Match("**/*.{go,md}", "a/b.md"))
	require.False(t, Match("**/*.{go,md}", "a/b.c"))
	require.True(t, ValidGlob(`{a,b}/{c,d}/{e,f,g}`))
	require.True(t, ValidGlob(`\{a,b\}[{,]`))

	// The matcher would try 2^40 combinations.
	long := strings.Repeat("{a,a}", 40) + "b"
	require.False(t, ValidGlob(long))
	require.False(t, Match(long, strings.Repeat("a", 41)))
	require.False(t, ValidGlob(strings.Repeat("{a,{b,c}}", 20)))
}
