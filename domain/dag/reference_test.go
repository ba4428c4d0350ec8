package dag

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTemplate(t *testing.T) {
	t.Parallel()

	for text, want := range map[string][]string{
		"no reference { } }}":                   nil,
		"{{nodes.a.output}}":                    {"{{nodes.a.output}}"},
		"x {{ nodes.a-1.output.f.0 }} y":        {"{{nodes.a-1.output.f.0}}"},
		"{{input.a}}{{input.b.c}}":              {"{{input.a}}", "{{input.b.c}}"},
		`\{{input.a}} is text, {{input.b}} not`: {"{{input.b}}"},
		"{{item}} {{item.name}}":                {"{{item}}", "{{item.name}}"},
	} {
		template, err := ParseTemplate(text)
		require.NoError(t, err, text)

		var got []string
		for _, r := range template.References() {
			got = append(got, r.String())
		}

		require.Equal(t, want, got, text)
	}

	whole, err := ParseTemplate("{{nodes.a.output.x}}")
	require.NoError(t, err)
	require.Equal(t, &Reference{Root: RootNodes, NodeID: "a", Path: []string{"x"}}, whole.Whole())

	part, err := ParseTemplate(" {{nodes.a.output.x}}")
	require.NoError(t, err)
	require.Nil(t, part.Whole())

	for text, offset := range map[string]int{
		"{{": 0, "ab {{x": 3, "{{}}": 0, "{{nodes}}": 0, "{{nodes.a}}": 0, "{{nodes.a.input}}": 0, "{{input}}": 0, "{{other.a}}": 0,
		"{{input.a b}}": 0, "{{input..a}}": 0, "{{input.ä}}": 0, "{{input.a}} {{{{": 12,
	} {
		_, err := ParseTemplate(text)
		syntax, ok := err.(*SyntaxError)
		require.True(t, ok, text)
		require.Equal(t, offset, syntax.Offset, text)
	}
}

// A fault does not hide the ones behind it.
func TestParseTemplate_allFaults(t *testing.T) {
	t.Parallel()

	template, faults := parseTemplate("{{a}} {{input.x}} {{" + strings.Repeat(" ", maxReference) + "{{b}} {{item}} {{")

	var at []int
	for _, f := range faults {
		at = append(at, f.Offset)
	}

	require.Equal(t, []int{0, 18, 20 + maxReference, 35 + maxReference}, at)
	require.Equal(t, []Reference{{Root: RootInput, Path: []string{"x"}}, {Root: RootItem, Path: []string{}}}, template.References())
}

// What the parser takes, it prints as a text with the same meaning.
func FuzzParseTemplate(f *testing.F) {
	for _, text := range []string{"", "{{nodes.a.output}}", `\{{ {{input.x}} \\{{`, "{{{", `\{{{{input.a}}`, "{{item}}{{", "}}{{ input.a }}"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}

		again, err := ParseTemplate(template.String())
		require.NoError(t, err, "%q from %q", template.String(), text)
		require.Equal(t, template, again, "%q from %q", template.String(), text)
	})
}
