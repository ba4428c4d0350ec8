package terminal

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files again")

// show renders recorded events: a file of testdata with "name data" a line.
func show(t *testing.T, name string, style Style) string {
	t.Helper()

	content, err := os.ReadFile(filepath.Join("testdata", name+".events"))
	require.NoError(t, err)

	var screen bytes.Buffer

	p := newPrinter(&screen, &screen, style)

	for line := range strings.Lines(string(content)) {
		kind, data, _ := strings.Cut(strings.TrimSpace(line), " ")
		e := Event{}
		require.NoError(t, json.Unmarshal([]byte(data), &e), line)
		e.Name = kind
		p.event(&e)
	}

	return screen.String()
}

func TestPrinter_matchesGoldenFiles(t *testing.T) {
	for _, c := range []struct {
		name, golden string
		style        Style
	}{
		{"tools", "tools.plain", Style{Width: 72}},
		{"tools", "tools.color", Style{Width: 72, Color: true, Live: true}},
		{"troubles", "troubles.plain", Style{Width: 72}},
		{"fork", "fork.plain", Style{Width: 72}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			got := show(t, c.name, c.style)

			file := filepath.Join("testdata", c.golden)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}

			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// Output of models and tools must not control the terminal.
func TestPrinter_removesControlSequences(t *testing.T) {
	got := show(t, "hostile", Style{Width: 72})
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "\a")
	require.NotContains(t, got, "\u202e")
	require.Contains(t, got, "safe text")
	require.Contains(t, got, "red output")
	require.NotContains(t, got, "title")
}

func TestCleaner_removesSequencesAcrossPieces(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tü€😀\n":              "plain\tü€😀\n",
		"a\x1b[31mred\x1b[0m":       "ared",
		"a\x1b]0;title\x07b":        "ab",
		"a\x1b]8;;http://x\x1b\\b":  "ab",
		"a\x1b(Bb":                  "ab",
		"10%\r20%\r\ndone":          "10%\n20%\ndone",
		"\x00\x08x\x7f\u009b2Jy":    "xy",
		"a\u202eb\u2066c":           "abc",
		"bad \xff byte":             "bad \ufffd byte",
		"\x1b[999999999999999999mz": "z",
	} {
		require.Equal(t, want, Clean(in))

		var (
			c   cleaner
			got strings.Builder
		)
		for i := range len(in) { // one byte at a time
			got.WriteString(c.clean(in[i : i+1]))
		}

		require.Equal(t, want, got.String(), "in pieces: %q", in)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mred\x1b[0m\x1b]0;t\x07")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Clean(text) {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q leaves %q", text, r)
			}
		}
	})
}

func TestQuestion_parse(t *testing.T) {
	colours := Question{Options: []Option{{Label: "Blue"}, {Label: "Green"}, {Label: "3"}}}
	several := colours

	several.MultiSelect = true
	for _, c := range []struct {
		question Question
		typed    string
		options  []int
		custom   string
		fault    string
	}{
		{colours, " 2 ", []int{1}, "", ""},
		{colours, "blue", []int{0}, "", ""},
		{colours, "3", []int{2}, "", ""}, // a label that is a number
		{colours, "4", nil, "", "option must be 1 to 3"},
		{colours, "0", nil, "", "option must be 1 to 3"},
		{colours, "=4", nil, "4", ""},
		{colours, "1,2", nil, "", "only one option"},
		{colours, "neither of them", nil, "neither of them", ""},
		{colours, "2 of them", nil, "2 of them", ""},
		{colours, "", nil, "", "an answer is required"},
		{colours, "=", nil, "", "an answer is required"},
		{colours, ",", nil, ",", ""},
		{several, "1, 2 1", []int{0, 1}, "", ""},
		{several, "1;2", []int{0, 1}, "", ""},
		{Question{}, "7", nil, "7", ""},
	} {
		options, custom, err := c.question.parse(c.typed)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault, "%q", c.typed)
			continue
		}

		require.NoError(t, err, "%q", c.typed)
		require.Equal(t, c.options, options, "%q", c.typed)
		require.Equal(t, c.custom, custom, "%q", c.typed)
	}
}

func TestFindKey_onlyForLoopback(t *testing.T) {
	dir := t.TempDir()
	_, err := FindKey("", dir, "http://127.0.0.1:8020")
	require.ErrorContains(t, err, "bootstrap-key does not exist")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bootstrap-key"), []byte("el_first\n"), 0o600))

	for _, base := range []string{"http://127.0.0.1:8020", "http://localhost", "http://[::1]:1"} {
		key, err := FindKey("", dir, base)
		require.NoError(t, err)
		require.Equal(t, "el_first", key)
	}

	for _, base := range []string{"http://example.com", "http://10.0.0.1:8020", "http://127.0.0.1.example.com", "::"} {
		_, err := FindKey("", dir, base)
		require.ErrorContains(t, err, "not sent to another machine", base)
	}

	key, err := FindKey("el_given", dir, "http://example.com")
	require.NoError(t, err)
	require.Equal(t, "el_given", key)
}
