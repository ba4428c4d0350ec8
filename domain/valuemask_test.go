package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestValueMasker(t *testing.T) {
	t.Parallel()

	mask := domain.ValueMasker("***", map[string]string{
		"TOKEN": "alice-1", "LONGER": "alice-1-more", "QUOTED": "say \"hi\"", "SHORT": "yes", "KEY": "first line of a key\nsecond\n",
	})
	for text, want := range map[string]string{
		"TOKEN=alice-1 alice-1-more": "TOKEN=*** ***",
		"say \"hi\"":                 "***",
		`{"a":"say \"hi\""}`:         `{"a":"***"}`,
		"yes":                        "yes",
		"> first line of a key":      "> ***",
	} {
		require.Equal(t, want, mask.Replace(text))
	}
}
