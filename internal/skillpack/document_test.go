package skillpack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"everloop/internal/skillpack"
)

const good = `---
name: pdf-forms
description: Fills in PDF forms. Use it when a form is to be filled in.
license: Apache-2.0
compatibility: Needs python3
metadata:
  author: example
  version: 1.10
  required_env: FORM_KEY, FORM_URL
  permissions: [network, files]
allowed-tools: Bash(git add:*) Read
---
# How

Read references/forms.md.
`

func TestAGoodDocument(t *testing.T) {
	t.Parallel()

	d, err := skillpack.Parse([]byte(good))
	require.NoError(t, err)
	require.Equal(t, "pdf-forms", d.Name)
	require.Equal(t, "Fills in PDF forms. Use it when a form is to be filled in.", d.Description)
	require.Equal(t, "Apache-2.0", d.License)
	require.Equal(t, "Needs python3", d.Compatibility)
	require.Equal(t, "1.10", d.Version, "as it is written, not as a number")
	require.Equal(t, []string{"FORM_KEY", "FORM_URL"}, d.RequiredEnv)
	require.Equal(t, []string{"network", "files"}, d.Permissions)
	require.Equal(t, []string{"Bash(git add:*)", "Read"}, d.AllowedTools)
	require.Equal(t, "# How\n\nRead references/forms.md.\n", d.Body)
	require.Empty(t, d.Warnings)
	_, err = json.Marshal(d.FrontMatter)
	require.NoError(t, err)
}

func TestForms(t *testing.T) {
	t.Parallel()

	for what, text := range map[string]string{
		"a byte order mark":    "\uFEFF---\nname: a\ndescription: b\n---\nbody",
		"Windows lines":        "---\r\nname: a\r\ndescription: b\r\n---\r\nbody",
		"old Mac lines":        "---\rname: a\rdescription: b\r---\rbody",
		"spaces behind":        "--- \nname: a\ndescription: b\n---\t\nbody",
		"no text":              "---\nname: a\ndescription: b\n---",
		"folded text":          "---\nname: a\ndescription: >\n  b\n  c\n---\nbody",
		"quotes":               "---\nname: \"a\"\ndescription: 'b: c'\n---\nbody",
		"a list of tools":      "---\nname: a\ndescription: b\nallowed-tools:\n  - Bash\n---\nbody",
		"hyphens below":        "---\nname: a\ndescription: b\n---\nbody\n---\nmore",
		"a number":             "---\nname: 7\ndescription: 8\n---\n",
		"64 and 1024":          "---\nname: " + strings.Repeat("a", 64) + "\ndescription: " + strings.Repeat("ü", 1024) + "\n---\n",
		"500 of compatibility": "---\nname: a\ndescription: b\ncompatibility: " + strings.Repeat("ü", 500) + "\n---\n",
	} {
		_, err := skillpack.Parse([]byte(text))
		require.NoError(t, err, what)
	}

	d, err := skillpack.Parse([]byte("---\nname: a\ndescription: b\nversion: 2.0.1\nmodel: x\nmetadata: {deep: {a: 1}}\n---\n"))
	require.NoError(t, err)
	require.Equal(t, "2.0.1", d.Version)
	require.Len(t, d.Warnings, 3)

	d, err = skillpack.Parse([]byte("---\nname: a\ndescription: b\nmetadata: {a: 1e-999999, b: 1e9, c: 1e99999999999999999999}\n---\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "1e-999999", "b": json.Number("1e9"), "c": "1e99999999999999999999"}, d.FrontMatter["metadata"])
}

// What authors write without knowing YAML, and other products read, is taken as it is meant.
func TestParse_unquotedTexts(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct{ text, want string }{
		"a colon":               {"description: Use when: the user asks", "Use when: the user asks"},
		"a colon at the end":    {"description: Use when it says:", "Use when it says:"},
		"colons and quotes":     {`description: Don't: say "x": y`, `Don't: say "x": y`},
		"an at sign":            {"description: @mentions and more", "@mentions and more"},
		"a percent sign":        {"description: %s is replaced", "%s is replaced"},
		"a backtick":            {"description: `make` runs it", "`make` runs it"},
		"a hyphen":              {"description: - reads files", "- reads files"},
		"lines that continue":   {"description: Use when: the user\n  asks: it", "Use when: the user asks: it"},
		"a text that is folded": {"description: >\n  Use when: the user\n  asks", "Use when: the user asks"},
		"a quoted text":         {`description: "Use when: the user asks"`, "Use when: the user asks"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := skillpack.Parse([]byte("---\nname: a\n" + tc.text + "\nmetadata:\n  version: 1.0.0\n---\nbody\n"))
			require.NoError(t, err)
			require.Equal(t, tc.want, d.Description)
			require.Equal(t, "1.0.0", d.Version)
		})
	}

	d, err := skillpack.Parse([]byte("---\nname: a\ndescription: Use when: asked\nlicense: MIT\n---\nbody\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"line 3: the text must be in quotes: it has characters that mean something in YAML"}, d.Warnings)

	d, err = skillpack.Parse([]byte("---\nname: PDF-Tools\ndescription: b\n---\nbody\n"))
	require.NoError(t, err)
	require.Equal(t, "pdf-tools", d.Name)
	require.Equal(t, []string{`the name "PDF-Tools" has capital letters: it is taken as "pdf-tools"`}, d.Warnings)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()

	with := func(lines ...string) string { return "---\n" + strings.Join(lines, "\n") + "\n---\nbody\n" }
	bomb := []string{"name: a", "description: b", "metadata:", "  a: &a [x,x,x,x,x,x,x,x,x]"}

	for c := 'b'; c < 'j'; c++ {
		p := "*" + string(c-1)
		bomb = append(bomb, "  "+string(c)+": &"+string(c)+" ["+strings.Repeat(p+",", 8)+p+"]")
	}

	for what, tc := range map[string]struct{ text, says string }{
		"nothing":            {"", "must begin with front matter"},
		"no front matter":    {"# Hello", "must begin with front matter"},
		"no end":             {"---\nname: a\ndescription: b\n", "does not end"},
		"empty":              {"---\n---\n", "is empty"},
		"a comment only":     {"---\n# x\n---\n", "is empty"},
		"no map":             {with("- a"), "must have lines like"},
		"a text":             {with("hello"), "must have lines like"},
		"not YAML":           {with("name: [a", "description: b"), "not valid YAML"},
		"tabs":               {with("name: a", "description: b", "metadata:", "\ta: b"), "not valid YAML"},
		"two documents":      {"---\nname: a\n...\nx: y\n---\n", "one YAML document"},
		"no name":            {with("description: b"), "name is missing"},
		"no description":     {with("name: a"), "description is missing"},
		"both missing":       {with("license: x"), "name is missing; description is missing"},
		"empty name":         {with("name: ''", "description: b"), "name is empty"},
		"null name":          {with("name:", "description: b"), "name is missing"},
		"blank description":  {with("name: a", "description: '  '"), "description is empty"},
		"capitals and blank": {with("name: PDF Tools", "description: b"), `use "pdf-tools"`},
		"underscore":         {with("name: a_b", "description: b"), `hyphens only; use "a-b"`},
		"a line of the file": {with("name: a", "description: b", "license: [x"), "line 4"},
		"other letters":      {with("name: ä", "description: b"), "lower-case"},
		"a path":             {with("name: ../a", "description: b"), "lower-case"},
		"hyphen first":       {with("name: -a", "description: b"), "hyphen"},
		"hyphen last":        {with("name: a-", "description: b"), "hyphen"},
		"two hyphens":        {with("name: a--b", "description: b"), "two hyphens"},
		"long name":          {with("name: "+strings.Repeat("a", 65), "description: b"), "longer than 64"},
		"long description":   {with("name: a", "description: "+strings.Repeat("ü", 1025)), "1025 characters"},
		"long compatibility": {with("name: a", "description: b", "compatibility: "+strings.Repeat("x", 501)), "501 characters"},
		"name is a list":     {with("name: [a]", "description: b"), "name must be a text"},
		"metadata is a text": {with("name: a", "description: b", "metadata: x"), "metadata must be a map"},
		"tools are a map":    {with("name: a", "description: b", "allowed-tools: {a: b}"), "allowed-tools must be a list"},
		"a key twice":        {with("name: a", "name: b", "description: b"), `line 3: "name" is duplicated`},
		"a deep key twice":   {with("name: a", "description: b", "metadata:", "  x: 1", "  x: 2"), `line 6: "x" is duplicated`},
		"a bomb":             {with(bomb...), "anchors and aliases"},
		"a NUL in a text":    {with("name: a", `description: "b\0c"`), "line 3: a text holds a NUL character"},
		"a NUL in a name":    {with("name: a", "description: b", `metadata: {"x\0y": 1}`), "line 4: a name holds a NUL character"},
		"a merge":            {with("name: a", "description: b", "metadata: {<<: {x: 1}}"), "plain word"},
		"a type of its own":  {with("name: !!binary aGk=", "description: b"), "type"},
		"an object":          {with("name: a", "description: b", "metadata: !!python/object {a: b}"), "type"},
		"a deep nest": {
			with("name: a", "description: b", "metadata: "+strings.Repeat("[", 50)+strings.Repeat("]", 50)),
			"nests too deep",
		},
		"a very deep nest":   {with("name: a", "description: b", "metadata: "+strings.Repeat("[", 20000)), "YAML"},
		"UTF-16":             {"\xff\xfe-\x00-\x00-\x00", "UTF-16"},
		"UTF-16, big end":    {"\xfe\xff\x00-\x00-\x00-", "UTF-16"},
		"Latin-1":            {"---\nname: a\ndescription: \xfc\n---\n", "not UTF-8"},
		"NUL":                {"---\nname: a\ndescription: b\n---\n\x00", "NUL"},
		"too large":          {with("name: a", "description: b") + strings.Repeat("x", 10<<20), "larger than"},
		"large front matter": {with("name: a", "description: b", "#"+strings.Repeat("x", 70_000)), "larger than 65536"},
	} {
		_, err := skillpack.Parse([]byte(tc.text))
		invalid, ok := errors.AsType[*skillpack.Error](err)
		require.True(t, ok, "%s: %v", what, err)
		require.Contains(t, invalid.Error(), tc.says, what)
		require.Less(t, len(invalid.Error()), 3000, what)
	}
}

// FuzzParse: no text makes the parser panic or hang, and what it accepts keeps
// the rules.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("---\nname: a\ndescription: &x b\nmetadata: {a: *x}\n---\n"))
	f.Add([]byte("---\n? [a]\n: b\n---\n"))
	f.Add([]byte("---\n\"\\x\": |+2\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := skillpack.Parse(text)
		if err != nil {
			if _, ok := errors.AsType[*skillpack.Error](err); !ok || err.Error() == "" || !utf8.ValidString(err.Error()) {
				t.Fatalf("an error without a reason: %q", err)
			}

			return
		}

		if problem := skillpack.CheckName(d.Name); problem != "" {
			t.Fatalf("name %q %s", d.Name, problem)
		}

		if n := utf8.RuneCountInString(d.Description); n == 0 || n > skillpack.MaxDescription {
			t.Fatalf("a description of %d characters", n)
		}

		if !bytes.HasSuffix(
			bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")),
			[]byte(d.Body),
		) {
			t.Fatal("the body is not the end of the file")
		}

		if _, err := json.Marshal(d.FrontMatter); err != nil {
			t.Fatal(err)
		}
	})
}
