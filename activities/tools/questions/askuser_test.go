package questions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

var asked = []Question{
	{Question: "Which database?", Options: []Option{{Label: "PostgreSQL"}, {Label: "SQLite <3>"}}},
	{Question: "Which parts?", Options: []Option{{Label: "API"}, {Label: "UI"}, {Label: "Docs"}}, MultiSelect: true},
}

func TestCheckAnswer(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		sent string
		want string // empty: invalid
	}{
		"options": {
			`{"selections":{"0":[1],"1":[2,0]}}`,
			`{"answers":[{"question":"Which database?","selected":["SQLite <3>"],"custom":""},` +
				`{"question":"Which parts?","selected":["Docs","API"],"custom":""}]}`,
		},
		"own words": {
			`{"custom":{"0":"DuckDB","1":"none"}}`,
			`{"answers":[{"question":"Which database?","selected":[],"custom":"DuckDB"},` +
				`{"question":"Which parts?","selected":[],"custom":"none"}]}`,
		},
		"mixed": {
			`{"selections":{"0":[0]},"custom":{"1":"all"}}`,
			`{"answers":[{"question":"Which database?","selected":["PostgreSQL"],"custom":""},` +
				`{"question":"Which parts?","selected":[],"custom":"all"}]}`,
		},
		"both for one": {
			`{"selections":{"0":[0],"1":[0]},"custom":{"1":"and tests"}}`,
			`{"answers":[{"question":"Which database?","selected":["PostgreSQL"],"custom":""},` +
				`{"question":"Which parts?","selected":["API"],"custom":"and tests"}]}`,
		},
		"empty choice and words": {
			`{"selections":{"0":[],"1":[0]},"custom":{"0":"x"}}`,
			`{"answers":[{"question":"Which database?","selected":[],"custom":"x"},` +
				`{"question":"Which parts?","selected":["API"],"custom":""}]}`,
		},

		"nothing":                 {`{}`, ""},
		"one left out":            {`{"selections":{"0":[0]}}`, ""},
		"empty selection":         {`{"selections":{"0":[0],"1":[]}}`, ""},
		"blank words":             {`{"selections":{"0":[0]},"custom":{"1":"  "}}`, ""},
		"no such option":          {`{"selections":{"0":[2],"1":[0]}}`, ""},
		"negative option":         {`{"selections":{"0":[-1],"1":[0]}}`, ""},
		"two of a single choice":  {`{"selections":{"0":[0,1],"1":[0]}}`, ""},
		"same option twice":       {`{"selections":{"0":[0],"1":[1,1]}}`, ""},
		"no such question":        {`{"selections":{"0":[0],"1":[0],"2":[0]}}`, ""},
		"no such question, words": {`{"selections":{"0":[0],"1":[0]},"custom":{"9":"x"}}`, ""},
		"question by name":        {`{"selections":{"Which database?":[0],"1":[0]}}`, ""},
		"question as 00":          {`{"selections":{"00":[0],"1":[0]}}`, ""},
		"label for an option":     {`{"selections":{"0":["PostgreSQL"],"1":[0]}}`, ""},
		"option without a list":   {`{"selections":{"0":0,"1":[0]}}`, ""},
		"fraction":                {`{"selections":{"0":[0.5],"1":[0]}}`, ""},
		"words that are a number": {`{"selections":{"0":[0]},"custom":{"1":7}}`, ""},
		"selections as a list":    {`{"selections":[[0],[0]]}`, ""},
		"not an object":           {`"yes"`, ""},
		"longer than any result":  {`{"selections":{"0":[0]},"custom":{"1":"` + strings.Repeat("x", tools.MaxResult) + `"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			answer, err := ParseAnswer(json.RawMessage(tc.sent))

			var got json.RawMessage
			if err == nil {
				got, err = CheckAnswer(asked, answer)
			}

			if tc.want == "" {
				require.True(t, domain.HasCode(err, domain.CodeInvalidAnswer), "%v", err)
				require.Equal(t, domain.Invalid, domain.AsError(err).Kind)

				return
			}

			require.NoError(t, err)
			require.Equal(t, tc.want, string(got))
		})
	}
}

func TestParseQuestions(t *testing.T) {
	t.Parallel()

	call, err := ParseQuestions(
		json.RawMessage(
			`{"questions":[{"question":"Why?"},{"question":"How?","options":[{"label":"So","description":"d"}],"multiSelect":true}]}`,
		),
	)
	require.NoError(t, err)
	require.Equal(t, []Question{
		{Question: "Why?", Options: []Option{}},
		{Question: "How?", Options: []Option{{Label: "So", Description: "d"}}, MultiSelect: true},
	}, call)

	kept, err := json.Marshal(call)
	require.NoError(t, err)
	again, err := ParseQuestions(kept)
	require.NoError(t, err)
	require.Equal(t, call, again, "a stored list of questions reads the same")

	for _, bad := range []string{``, `{}`, `[]`, `{"questions":[]}`, `{"questions":"x"}`, `[1]`, `x`} {
		_, err := ParseQuestions(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(`{"selections":{"0":[0],"1":[1,2]},"custom":{"1":"x"}}`)
	f.Add(`{"selections":{"-1":[9999999999]}}`)
	f.Fuzz(func(t *testing.T, sent string) {
		answer, err := ParseAnswer(json.RawMessage(sent))
		if err != nil {
			return
		}

		result, err := CheckAnswer(asked, answer)
		if err == nil && (!json.Valid(result) || tools.Length(string(result)) > tools.MaxResult) {
			t.Errorf("%q gives %q", sent, result)
		}
	})
}

func TestWithSource_namesAsker(t *testing.T) {
	t.Parallel()

	out, err := WithSource(
		[]byte(`{"questions": [{"question": "So?"}], "source_loop": {"loop_id": "forged"}}`),
		domain.SourceLoop{LoopID: "call_1", AgentType: "poet"},
	)
	require.NoError(t, err)
	require.JSONEq(t, `{"questions": [{"question": "So?"}],
		"source_loop": {"loop_id": "call_1", "parent_tool_call_id": "", "agent_type": "poet", "description": ""}}`, out)
}

func TestDeclared(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]string{
		`{"questions": [{"question": "So?"}], "permission_for": "call_1"}`:                                                      `{"questions":[{"question":"So?"}]}`,
		`{"questions": [{"question": "So?"}], "source_loop": {"loop_id": "x"}}`:                                                 `{"questions":[{"question":"So?"}]}`,
		`{"questions": [{"question": "So?", "header": "H", "options": [{"label": "a", "x": 1}], "y": 2}], "Permission_for": 1}`: `{"questions":[{"header":"H","options":[{"label":"a"}],"question":"So?"}]}`,
		`{"questions":  [{"question": "So?", "multiSelect": true}]}`:                                                            `{"questions":  [{"question": "So?", "multiSelect": true}]}`,
		`nonsense`: `nonsense`,
		`[1]`:      `[1]`,
	} {
		require.Equal(t, want, Declared(in))
	}
}
