package search

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
)

// grepBench returns a session whose files are the same with and without ripgrep.
func grepBench(t *testing.T, box tools.Sandbox) *toolstest.Bench {
	b := newBench(t, box)
	for name, content := range map[string]string{
		"main.go":                  "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n",
		"lib/util.go":              "package lib\n\n// Hello says hello.\nfunc Hello() string {\n\treturn \"hello\"\n}\n",
		"lib/util_test.go":         "package lib\n\nfunc TestHello() {}\n",
		"lib.txt":                  "sorted between the directory and what follows\n",
		"web/app.ts":               "const x = 1\r\nconst hello = 2\r\nexport { x }\r\n",
		"web/app.tsx":              "hello without end",
		"docs/umlaut.md":           "Grüße, ÄPFEL und ١٢٣\nword_ñ here\n",
		"docs/latin.md":            "caf\xe9 latin\n",
		"deep/a/b/c/d.txt":         "needle one\nfiller 1\nfiller 2\nfiller 3\nneedle two\nfiller 4\nneedle three\n",
		"adjacent.txt":             "x1\nx2\nx3\nend\nx4\n",
		"empty.txt":                "",
		"blank.txt":                "\n\n\n",
		"binary.dat":               "needle\x00needle\n",
		".hidden/h.txt":            "needle hidden\n",
		".git/config":              "needle git\n",
		"sub/.git/HEAD":            "needle git\n",
		".everloop/output/o.txt":   "needle output\n",
		"node_modules/m/index.js":  "needle module\n",
		".gitignore":               "ignored.txt\n",
		"ignored.txt":              "needle ignored\n",
		"long.txt":                 strings.Repeat("y", 1500) + " needle\n",
		"-dash.txt":                "needle dash\n",
		"with space/and 'quote'.t": "needle quoted\n",
	} {
		b.File(name, content)
	}

	require.NoError(t, os.Symlink("/etc", filepath.Join(b.Session.Root, "etc")))
	require.NoError(t, os.Symlink("main.go", filepath.Join(b.Session.Root, "link.go")))

	return b
}

func TestGrep_sameWithAndWithoutRipgrep(t *testing.T) {
	t.Parallel()

	withRg, without := grepBench(t, toolstest.RealSandbox(t)), grepBench(t, nil)

	found, err := toolstest.RealSandbox(t).Run(t.Context(), tools.Command{Session: withRg.Session, Argv: []string{"rg", "--version"}})
	require.NoError(t, err)

	if found.Code != 0 {
		t.Skip("no ripgrep in the sandbox")
	}

	for name, arguments := range map[string]toolstest.Args{
		"plain":                    {"pattern": "hello"},
		"nothing":                  {"pattern": "no such thing"},
		"every needle":             {"pattern": "needle"},
		"ignoring case":            {"pattern": "HELLO", "-i": true},
		"ignoring case, umlauts":   {"pattern": "äpfel", "-i": true},
		"without numbers":          {"pattern": "hello", "-n": false},
		"files":                    {"pattern": "hello", "output_mode": "files_with_matches"},
		"count":                    {"pattern": "needle", "output_mode": "count"},
		"file as path":             {"pattern": "needle", "path": "deep/a/b/c/d.txt"},
		"file as path, other glob": {"pattern": "needle", "path": "deep/a/b/c/d.txt", "glob": "*.go"},
		"directory as path":        {"pattern": "hello", "path": "lib"},
		"service files outright":   {"pattern": "needle", "path": ".everloop/output"},
		"after":                    {"pattern": "needle", "path": "deep", "-A": 1},
		"before":                   {"pattern": "needle", "path": "deep", "-B": 1},
		"around":                   {"pattern": "needle", "path": "deep", "-C": 1},
		"around, all files":        {"pattern": "needle", "-C": 2},
		"around, without numbers":  {"pattern": "needle", "-C": 1, "-n": false},
		"before and after":         {"pattern": "two", "path": "deep", "-B": 1, "-A": 2},
		"around larger than files": {"pattern": "two", "path": "deep", "-C": 100},
		"first lines":              {"pattern": "needle", "head_limit": 2},
		"first files":              {"pattern": "needle", "output_mode": "files_with_matches", "head_limit": 2},
		"first counts":             {"pattern": "needle", "output_mode": "count", "head_limit": 1},
		"limit exactly met":        {"pattern": "needle", "path": "deep", "head_limit": 3},
		"limit with context":       {"pattern": "needle", "path": "deep", "head_limit": 3, "-C": 1},
		"glob":                     {"pattern": "hello", "glob": "*.go"},
		"glob with alternatives":   {"pattern": "hello", "glob": "*.{ts,tsx}"},
		"glob with directory":      {"pattern": "hello", "glob": "lib/*.go"},
		"glob over directories":    {"pattern": "needle", "glob": "**/*.txt"},
		"glob leaves out":          {"pattern": "hello|Hello", "glob": "!*_test.go"},
		"glob leaves dir out":      {"pattern": "needle", "glob": "!node_modules"},
		"glob leaves path out":     {"pattern": "needle", "glob": "!deep/a"},
		"glob from the root":       {"pattern": "needle", "glob": "/*.txt"},
		"start of line":            {"pattern": "^func"},
		"end of line":              {"pattern": `\($`},
		"end of a Windows line":    {"pattern": "2$"},
		"empty line":               {"pattern": "^$", "glob": "*.go"},
		"blank file":               {"pattern": "^$", "path": "blank.txt"},
		"any line":                 {"pattern": ".", "path": "adjacent.txt"},
		"matches nothing at all":   {"pattern": "q*", "path": "lib.txt"},
		"braces":                   {"pattern": "interface{}|TestHello\\(\\) {}"},
		"braces as letters":        {"pattern": "{ x }"},
		"word characters":          {"pattern": `word_\w here`},
		"word boundary":            {"pattern": `\bhello\b`},
		"boundary in a word":       {"pattern": `Gr\b`},
		"no boundary":              {"pattern": `\Bello`},
		"digits of all scripts":    {"pattern": `\d\d\d`},
		"classes":                  {"pattern": `[[:upper:]]ello[^\w]`},
		"bracket in a class":       {"pattern": `[]x]1`},
		"white space":              {"pattern": `package\s+main`},
		"one of several":           {"pattern": "(one|three)$"},
		"adjacent":                 {"pattern": `x\d`, "output_mode": "count"},
		"bytes that are no text":   {"pattern": "latin"},
		"begins with a dash":       {"pattern": "-dash|needle dash"},
		"multiline":                {"pattern": `main\(\) \{\n\tprintln`, "multiline": true},
		"multiline with a dot":     {"pattern": `func Hello.*?return`, "multiline": true},
		"multiline count":          {"pattern": `x1.x2|x4`, "multiline": true, "output_mode": "count"},
		"multiline adjacent":       {"pattern": `x\d\n`, "multiline": true, "-A": 1, "path": "adjacent.txt"},
		"multiline around":         {"pattern": `one\nfiller`, "multiline": true, "-C": 1, "path": "deep"},
		"multiline single lines":   {"pattern": `^needle`, "multiline": true},
		"quoted names":             {"pattern": "quoted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a, b := withRg.Do("Grep", arguments), without.Do("Grep", arguments)
			require.False(t, a.IsError, a.Output)
			require.Equal(t, b.Output, a.Output, "ripgrep (actual) and Go (expected) differ")

			if !strings.HasPrefix(name, "braces") { // which only Go takes
				requireRipgrep(t, withRg, arguments)
			}
		})
	}
}

// requireRipgrep requires that ripgrep takes the search.
func requireRipgrep(t *testing.T, b *toolstest.Bench, arguments toolstest.Args) {
	t.Helper()

	data, err := json.Marshal(arguments)
	require.NoError(t, err)
	in, err := tools.Decode[grepArguments](data)
	require.NoError(t, err)
	files, err := toolstest.Directory{}.Open(t.Context(), b.Session)
	require.NoError(t, err)

	defer files.Close()

	s, err := newSearch(files, in)
	require.NoError(t, err)

	engine := ripgrep{toolstest.RealSandbox(t), b.Session, new(atomic.Bool)}
	require.NoError(t, engine.each(t.Context(), s, func(string) error { return nil }))
}

func TestGrep_finds(t *testing.T) {
	t.Parallel()
	b := grepBench(t, nil)
	require.Equal(t, "lib/util.go:3:// Hello says hello.\nlib/util.go:5:\treturn \"hello\"\nmain.go:4:\tprintln(\"hello\")\n",
		b.Do("Grep", toolstest.Args{"pattern": "hello", "glob": "*.go"}).Output)
	require.Equal(t, "deep/a/b/c/d.txt:1:needle one\ndeep/a/b/c/d.txt-2-filler 1\n--\ndeep/a/b/c/d.txt-4-filler 3\n"+
		"deep/a/b/c/d.txt:5:needle two\ndeep/a/b/c/d.txt-6-filler 4\ndeep/a/b/c/d.txt:7:needle three\n",
		b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "deep", "-C": 1}).Output)
	require.Equal(
		t,
		"deep/a/b/c/d.txt:3\n",
		b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "deep", "output_mode": "count"}).Output,
	)
	require.Equal(t, "Nothing matches.", b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "binary.dat"}).Output)
	require.NotContains(t, b.Do("Grep", toolstest.Args{"pattern": "needle"}).Output, "git")
}

func TestGrep_refusals(t *testing.T) {
	t.Parallel()

	b := grepBench(t, nil)
	for name, tc := range map[string]struct {
		arguments toolstest.Args
		says      string
	}{
		"not a pattern":  {toolstest.Args{"pattern": "a("}, "missing closing )"},
		"look-ahead":     {toolstest.Args{"pattern": "a(?=b)"}, "look-around"},
		"look-behind":    {toolstest.Args{"pattern": "(?<=a)b"}, "look-around"},
		"backreference":  {toolstest.Args{"pattern": `(a)\1`}, "backreferences"},
		"line end":       {toolstest.Args{"pattern": `a\nb`}, "set multiline"},
		"missing path":   {toolstest.Args{"pattern": "a", "path": "none"}, "does not exist"},
		"outside":        {toolstest.Args{"pattern": "a", "path": "../.."}, "leaves the workspace"},
		"bad glob":       {toolstest.Args{"pattern": "a", "glob": "[a"}, "not a valid glob"},
		"unknown mode":   {toolstest.Args{"pattern": "a", "output_mode": "json"}, "must be one of"},
		"number as text": {toolstest.Args{"pattern": "a", "-C": "three"}, "-C: must be of type integer, not string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := b.Do("Grep", tc.arguments)
			require.True(t, result.IsError)
			require.Contains(t, result.Output, tc.says)
		})
	}
}

func TestGrep_keepsLongReport(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "needle number %d\n", i)
	}

	b.File("many.txt", text.String())
	result := b.Do("Grep", toolstest.Args{"pattern": "needle"})
	require.LessOrEqual(t, tools.Length(result.Output), tools.MaxResult)
	require.Contains(t, result.Output, tools.OutputPath("call_1"))
	require.Contains(t, b.Content(tools.OutputPath("call_1")), "many.txt:20000:needle number 19999\n")
}

func TestGrep_stopsRipgrepAtLimit(t *testing.T) {
	t.Parallel()

	b := newBench(t, toolstest.RealSandbox(t))
	for i := range 50 {
		b.File(fmt.Sprintf("f%02d.txt", i), strings.Repeat("needle\n", 2000))
	}

	result := b.Do("Grep", toolstest.Args{"pattern": "needle", "head_limit": 3})
	require.Equal(
		t,
		"f00.txt:1:needle\nf00.txt:2:needle\nf00.txt:3:needle\n\n[The first 3 lines are shown; there are more. Narrow the search, or "+
			"give a higher head_limit.]\n",
		result.Output,
	)
}

func TestGrep_manyMatchesInOneFile(t *testing.T) {
	t.Parallel()

	const lines = 1 << 18

	for engine, box := range map[string]tools.Sandbox{"ripgrep": toolstest.RealSandbox(t), "scan": nil} {
		for name, tc := range map[string]struct {
			arguments toolstest.Args
			want      string
		}{
			"count":           {toolstest.Args{"pattern": "^$", "output_mode": "count"}, fmt.Sprintf("feeds.txt:%d\n", lines)},
			"multiline count": {toolstest.Args{"pattern": `\n`, "multiline": true, "output_mode": "count"}, fmt.Sprintf("feeds.txt:%d\n", lines)},
			"whole text":      {toolstest.Args{"pattern": `\n+`, "multiline": true, "output_mode": "count"}, fmt.Sprintf("feeds.txt:%d\n", lines)},
			"multiline content": {
				toolstest.Args{"pattern": `\n`, "multiline": true, "head_limit": 2},
				"feeds.txt:1:\nfeeds.txt:2:\n\n[The first 2 lines are shown; there are more. Narrow the search, or give a higher " +
					"head_limit.]\n",
			},
			"multiline files": {toolstest.Args{"pattern": `\n`, "multiline": true, "output_mode": "files_with_matches"}, "feeds.txt\n"},
		} {
			t.Run(engine+"/"+name, func(t *testing.T) {
				b := newBench(t, box)
				b.File("feeds.txt", strings.Repeat("\n", lines))
				require.Equal(t, tc.want, b.Do("Grep", tc.arguments).Output)
			})
		}
	}
}

func TestGrep_longLinesAndBytes(t *testing.T) {
	t.Parallel()

	for engine, box := range map[string]tools.Sandbox{"ripgrep": toolstest.RealSandbox(t), "scan": nil} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, box)
			b.File("control.txt", strings.Repeat("\x01", 17<<20)+"needle\n")
			b.File("latin.txt", "caf\xe9 needle\r\nthe next\r\n")
			b.File("long.txt", strings.Repeat("€", 3000)+"needle\r\n")
			b.File("quoted \"name\".txt", "a \"needle\" \\ and\ttab\n")
			require.Equal(
				t, "latin.txt:1:caf\uFFFD needle\nlatin.txt-2-the next\n",
				b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "latin.txt", "-A": 1}).Output,
			)
			require.Equal(
				t, "long.txt:1:"+strings.Repeat("€", 1000)+" [… cut: the line has 3006 characters]\n",
				b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "long.txt"}).Output,
			)
			require.Equal(
				t,
				"control.txt:1\n",
				b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "control.txt", "output_mode": "count"}).Output,
			)
			require.Equal(
				t,
				"quoted \"name\".txt:1:a \"needle\" \\ and\ttab\n",
				b.Do("Grep", toolstest.Args{"pattern": "needle", "glob": "quoted*"}).Output,
			)
			b.File("huge.txt", strings.Repeat("needle\n", 5<<20))
			huge := b.Do("Grep", toolstest.Args{"pattern": "needle", "path": "huge.txt"})
			require.True(t, huge.IsError)
			require.Contains(t, huge.Output, "are not searched")
		})
	}
}
