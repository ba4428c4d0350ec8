package tools

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchema_check(t *testing.T) {
	t.Parallel()

	s, err := compileSchema([]byte(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{
		"command":{"type":"string"},"timeout":{"type":"integer","minimum":1},"ratio":{"type":"number"},"all":{"type":"boolean"},
		"list":{"type":"array","items":{"type":"integer"}},"filter":{"type":"object","properties":{"n":{"type":"integer"}}},
		"optional":{"anyOf":[{"type":"integer"},{"type":"null"}]},"either":{"type":["string","integer"]},
		"several":{"anyOf":[{"type":"integer"},{"type":"boolean"},{"type":"array"}]},
		"nested":{"type":"array","items":{"type":"object","required":["on"],"properties":{"on":{"type":"boolean"}}}}}}`))
	require.NoError(t, err)

	for name, c := range map[string]struct{ in, want string }{
		"valid":                    {`{"command":"x","timeout":5}`, `{"command":"x","timeout":5}`},
		"integer":                  {`{"command":"x","timeout":"5000"}`, `{"command":"x","timeout":5000}`},
		"integer in blanks":        {`{"command":"x","timeout":" 5 "}`, `{"command":"x","timeout":5}`},
		"number":                   {`{"command":"x","ratio":"0.5"}`, `{"command":"x","ratio":0.5}`},
		"boolean":                  {`{"command":"x","all":"true"}`, `{"command":"x","all":true}`},
		"null of an optional":      {`{"command":"x","timeout":null}`, `{"command":"x"}`},
		"list":                     {`{"command":"x","list":"[1,2]"}`, `{"command":"x","list":[1,2]}`},
		"list with texts":          {`{"command":"x","list":"[\"1\"]"}`, `{"command":"x","list":[1]}`},
		"object":                   {`{"command":"x","filter":"{\"n\":\"1\"}"}`, `{"command":"x","filter":{"n":1}}`},
		"one of two":               {`{"command":"x","optional":"7"}`, `{"command":"x","optional":7}`},
		"one of three":             {`{"command":"x","several":"true"}`, `{"command":"x","several":true}`},
		"a text that may be one":   {`{"command":"x","either":"7"}`, `{"command":"x","either":"7"}`},
		"items":                    {`{"command":"x","nested":[{"on":"false"}]}`, `{"command":"x","nested":[{"on":false}]}`},
		"a text of a text":         {`{"command":"5000"}`, `{"command":"5000"}`},
		"all as a string":          {`"{\"command\":\"x\",\"timeout\":\"5\"}"`, `{"command":"x","timeout":5}`},
		"newline":                  {"{\"command\":\"a\nb\"}", `{"command":"a\u000ab"}`},
		"tab and return":           {"{\"command\":\"a\t\r\"}", `{"command":"a\u0009\u000d"}`},
		"newline beside escapes":   {"{\"command\":\"a\\n\n\\\"\"}", `{"command":"a\n\u000a\""}`},
		"apostrophe":               {`{"command":"it\'s"}`, `{"command":"it's"}`},
		"apostrophe and newline":   {`{"command":"it\'s\n"}`, `{"command":"it's\n"}`},
		"regular expression":       {`{"command":"\d+\s"}`, `{"command":"\\d+\\s"}`},
		"expression in quotes":     {`{"command":"grep \"\d\""}`, `{"command":"grep \"\\d\""}`},
		"escapes in another value": {`{"command":"\d","filter":{"a":"x\ny"}}`, `{"command":"\\d","filter":{"a":"x\ny"}}`},
		"large integer is kept":    {`{"command":"x","timeout":"9007199254740993"}`, `{"command":"x","timeout":9007199254740993}`},
		"markup is kept":           {`{"command":"<&>","timeout":"5"}`, `{"command":"<&>","timeout":5}`},
	} {
		got, problem := s.check(c.in)
		require.Empty(t, problem, name)
		require.JSONEq(t, c.want, string(got), name)
	}

	for name, in := range map[string]string{
		"no number":               `{"command":"x","timeout":"5s"}`,
		"a fraction":              `{"command":"x","timeout":"5.5"}`,
		"no boolean":              `{"command":"x","all":"yes"}`,
		"below the minimum":       `{"command":"x","timeout":"0"}`,
		"null of a required one":  `{"command":null}`,
		"null as an item":         `{"command":"x","list":[null]}`,
		"a number for a text":     `{"command":5}`,
		"backslash n or newline":  `{"command":"C:\dir\new"}`,
		"one backslash or two":    `{"command":"\d\\."}`,
		"quotes of a shell":       `{"command":"echo 'it'\''s'"}`,
		"backslash at the end":    "{\"command\":\"a\\\nb\"}",
		"half an object":          `{"command":"x`,
		"a string within strings": `"\"{}\""`,
		"a list":                  `[1]`,
		"unicode that is cut":     `{"command":"\u12"}`,
	} {
		_, problem := s.check(in)
		require.NotEmpty(t, problem, name)
	}

	_, problem := s.check(`{"command":` + strings.Repeat("[", 20_000))
	require.NotEmpty(t, problem, "deep nesting")
}

func TestToolset_Name(t *testing.T) {
	t.Parallel()

	set := &Toolset{byName: map[string]*Tool{"Bash": {}, "mcp__a__b c": {}}}

	for in, want := range map[string]string{
		"Bash": "Bash", "Bash<|channel|>commentary": "Bash", "Bash ": "Bash", "\nBash": "Bash", "<|start|>Bash": "Bash",
		"Bash<|message|>": "Bash", "Bash<｜tool▁sep｜>": "Bash", "Bash</tool_call>": "Bash", "Bash<|constrain": "Bash",
		"mcp__a__b c": "mcp__a__b c", "Nothing<|end|>": "Nothing", "Nothing": "Nothing", "<|end|>": "", "": "",
	} {
		require.Equal(t, want, set.Name(in), in)
	}
}
