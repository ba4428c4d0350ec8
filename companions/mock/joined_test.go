package mock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeparate(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"one":        {"hello", []string{"hello"}},
		"empty":      {"", []string{""}},
		"paragraphs": {"a\n\nb", []string{"a\n\nb"}},
		"reminder before": {
			"<system-reminder>x\n\ny</system-reminder>\n\nhello", []string{"<system-reminder>x\n\ny</system-reminder>", "hello"},
		},
		"reminder after": {"hello\n\n<system-reminder>x</system-reminder>", []string{"hello", "<system-reminder>x</system-reminder>"}},
		"parts after a reminder": {
			"<system-reminder>x</system-reminder>\nImage 1 of the result:\n\nhello",
			[]string{"<system-reminder>x</system-reminder>\nImage 1 of the result:", "hello"},
		},
		"after a script": {"a[[script]]{}[[/script]]\n\nb", []string{"a[[script]]{}[[/script]]\n\nb"}},
		"two scripts": {
			"[[script]]1[[/script]]\n\n[[script]]2[[/script]]", []string{"[[script]]1[[/script]]", "[[script]]2[[/script]]"},
		},
		"a page to read":     {"a[[script]]{}[[/script]]\n\n<page url=\"x\">b", []string{"a[[script]]{}[[/script]]\n\n<page url=\"x\">b"}},
		"text with a script": {"a [[script]]{}[[/script]] b", []string{"a [[script]]{}[[/script]] b"}},
	} {
		var got []string
		for _, m := range separate([]chatMessage{{Role: "user", Content: messageContent(c.in)}}) {
			got = append(got, string(m.Content))
		}

		require.Equal(t, c.want, got, name)
	}
}
