package builtin

import (
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stretchr/testify/require"
)

func TestReplacements_lineEnds(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ text, from, to, want string }{
		"unix":                      {"a\nb\nc\n", "b", "b1\nb2", "a\nb1\nb2\nc\n"},
		"unix with a return":        {"a\nb\n", "b", "b1\r\nb2", "a\nb1\r\nb2\n"},
		"windows":                   {"a\r\nb\r\nc\r\n", "b", "b1\nb2", "a\r\nb1\r\nb2\r\nc\r\n"},
		"windows, last line":        {"a\r\nb", "b", "b1\nb2", "a\r\nb1\r\nb2"},
		"windows, several lines":    {"a\r\nb\r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"},
		"windows, given as windows": {"a\r\nb\r\n", "a\r\nb", "x\r\ny\r\nz", "x\r\ny\r\nz\r\n"},
		"windows, starts with one":  {"a\r\nb\r\n", "\nb", "\nx\ny", "a\r\nx\r\ny\r\n"},
		"mixed, unix line":          {"a\r\nb\nc\r\n", "b\n", "b2\nb3\n", "a\r\nb2\nb3\nc\r\n"},
		"mixed, windows line":       {"a\r\nb\nc\r\n", "a", "a1\na2", "a1\r\na2\r\nb\nc\r\n"},
		"mixed, both":               {"a\r\nb\nc\r\n", "a\nb\nc", "A\nB\nC", "A\r\nB\nC\r\n"},
		"mixed, before":             {"a\nb\r\nc", "c", "c1\nc2", "a\nb\r\nc1\r\nc2"},
		"lone returns":              {"a\rb\r\nc\r\n", "c", "x\ny", "a\rb\r\nx\r\ny\r\n"},
		"removed line":              {"a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"},
	} {
		edits, err := replacements(c.text, editArguments{Old: c.from, New: c.to})
		require.NoError(t, err, name)
		got, err := udiff.Apply(c.text, edits)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}

	edits, err := replacements("b\r\nb\nb", editArguments{Old: "b", New: "x\ny", All: true})
	require.NoError(t, err)
	got, err := udiff.Apply("b\r\nb\nb", edits)
	require.NoError(t, err)
	require.Equal(t, "x\r\ny\r\nx\ny\nx\ny", got)
}
