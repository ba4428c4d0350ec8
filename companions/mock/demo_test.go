package mock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
)

const saysDemo = "scripted demo, not a real model"

func TestDemo_firstChat(t *testing.T) {
	b := start(t, mock.Config{})
	for _, hello := range []string{"Hello!", "Was kannst du?", "?", "how do I write a compiler in an account"} {
		replies := b.play(specs(allTools...), "", say("system", "You are an agent."), say("user", hello))
		require.Contains(t, replies[0].Text, saysDemo)
		require.NotEmpty(t, replies[0].Thinking)

		for _, later := range replies[1:] {
			require.NotContains(t, later.Text, saysDemo, "once in a conversation is enough")
		}

		tools := used(replies)
		require.Contains(t, tools, "AskUserQuestion")
		require.NotEqual(t, "AskUserQuestion", tools[0], "it acts before it asks")
		require.NotEmpty(t, replies[len(replies)-1].Text)
	}
}

func TestChoicesOfTheTour(t *testing.T) {
	b := start(t, mock.Config{})
	for choice, tool := range map[string]string{
		"Build a program": "Write", "Tools in parallel": "Glob", "A plan with tasks": "TaskCreate", "A long text": "Bash",
	} {
		replies := b.play(specs(allTools...), choice, say("user", "hi"))
		after := used(replies)[2:]
		require.Contains(t, after, tool, choice)
	}
}

func TestScriptsByKeyword(t *testing.T) {
	b := start(t, mock.Config{})

	tests := []struct {
		said, choice string
		tools        string
	}{
		{"Build me a program", "Stop here", "Write Bash Read AskUserQuestion"},
		{"please write a file", "A larger table", "Write Bash Read AskUserQuestion Bash"},
		{"create something", "Change the program", "Write Bash Read AskUserQuestion Edit Bash"},
		{"list the files", "", "Glob Bash"},
		{"count to 5", "", "Bash Bash Bash Bash Bash"},
		{"run things in parallel", "", "Bash Bash Bash Glob"},
		{"ask me a question", "Green", "AskUserQuestion Write"},
		{"make a plan", "", "TaskCreate TaskCreate TaskCreate Bash"},
		{"delegate to a sub-agent", "", "Agent"},
		{"a long text", "", "Bash"},
	}
	for _, tt := range tests {
		t.Run(tt.said, func(t *testing.T) {
			replies := b.play(specs(allTools...), tt.choice, say("user", tt.said))
			require.Equal(t, tt.tools, strings.Join(used(replies), " "))
			require.Contains(t, replies[0].Text, saysDemo)
			require.NotEmpty(t, replies[len(replies)-1].Text)
		})
	}

	t.Run("parallel tools come in one answer", func(t *testing.T) {
		require.Len(t, b.play(specs(allTools...), "", say("user", "parallel"))[0].Calls, 4)
	})
	t.Run("the chosen answer is acted on", func(t *testing.T) {
		replies := b.play(specs(allTools...), "Green", say("user", "ask me a question"))
		require.Contains(t, replies[len(replies)-1].Text, "green")
	})
}

func TestDemo_laterMessagesUseATool(t *testing.T) {
	b := start(t, mock.Config{})
	replies := b.play(specs(allTools...), "", say("user", "hi"), say("assistant", "hello"), say("user", "blargh"))
	require.Equal(t, []string{"Bash"}, used(replies))
	require.NotContains(t, replies[0].Text, saysDemo)
}

func TestRemindersAreNotTheUser(t *testing.T) {
	b := start(t, mock.Config{})
	replies := b.play(specs(allTools...), "", say("user", "count to 2"), say("user", "<system-reminder>list files</system-reminder>"))
	require.Equal(t, []string{"Bash", "Bash"}, used(replies))
}

func TestOnlyOfferedToolsAreUsed(t *testing.T) {
	b := start(t, mock.Config{})

	offered := []string{"Bash", "Read"}
	for _, said := range []string{"hi", "build it", "files", "question", "plan", "parallel", "sub-agent", "long", "count to 3"} {
		replies := b.play(specs(offered...), "", say("user", said))
		require.Subset(t, offered, append(used(replies), "Bash"), said)
		require.NotEmpty(t, replies[len(replies)-1].Text, said)
	}
}

func TestPlanningMode(t *testing.T) {
	b := start(t, mock.Config{})
	replies := b.play(specs("AskUserQuestion", "Read", "Glob", "Grep", "SubmitPlan"), "", say("user", "build a program"))
	require.Equal(t, []string{"Glob", "SubmitPlan"}, used(replies))

	var plan struct {
		Title string
		Steps []struct {
			ID, Title, Detail string
			DependsOn         []string `json:"depends_on"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(replies[1].Calls[0].Arguments), &plan))
	require.Len(t, plan.Steps, 3)
	require.Equal(t, []string{"1"}, plan.Steps[1].DependsOn)
}

func TestWithoutToolsItIsTextOnly(t *testing.T) {
	b := start(t, mock.Config{})
	t.Run("plain", func(t *testing.T) {
		reply := b.must(prompt(nil, say("user", "build a program")))
		require.Empty(t, reply.Calls)
		require.Contains(t, reply.Text, saysDemo)
	})
	t.Run("title", func(t *testing.T) {
		for _, p := range []domain.Prompt{
			prompt(nil, say("system", "Give a short title for the conversation."), say("user", "repair the login page of my shop please, "+
				"it is broken")),
			prompt(nil, say("user", "Write a title for this conversation.\nUser: repair the login page of my shop\nAssistant: ok")),
			prompt(nil, say("user", "Write a title for this conversation.\n\nrepair the login page of my shop")),
		} {
			require.Equal(t, "Repair the login page of my", b.must(p).Text)
		}

		scripted := b.must(prompt(nil, say("system", "Give a title."), script(`{"steps":[{"status":500}]}`)))
		require.Equal(t, "Please thanks", scripted.Text, "a quoted script is not obeyed")
	})
	t.Run("summary", func(t *testing.T) {
		call := say("assistant", "I will look.")
		call.Calls = []domain.PromptCall{{ID: "a", Name: "Bash", Arguments: "{}"}}
		result := say("tool", "ok")
		result.ToolCallID = "a"
		reply := b.must(prompt(nil, say("user", "repair the login"), call, result, say("user", "Summarize the conversation so far.")))
		require.Contains(t, reply.Text, "repair the login")
		require.Contains(t, reply.Text, "Bash")
		require.Contains(t, reply.Text, "I will look.")
	})
}

func TestAnswersFollowTheSchema(t *testing.T) {
	b := start(t, mock.Config{})

	schemas := []string{
		`{"type":"object","required":["name","age","tags","kind","when","nested"],"additionalProperties":false,"properties":{
			"name":{"type":"string","minLength":30},"age":{"type":"integer","minimum":18,"maximum":99},
			"tags":{"type":"array","minItems":2,"items":{"type":"string","maxLength":4}},
			"kind":{"enum":["a","b"]},"when":{"type":"string"},"nested":{"$ref":"#/$defs/n"},"optional":{"type":"boolean"}},
			"$defs":{"n":{"type":"object","properties":{"x":{"type":["number","null"]},"ok":{"const":true}}}}}`,
		`{"type":"array","items":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}`,
		`{"type":"number","exclusiveMinimum":5}`,
		`{"type":"object","properties":{"self":{"$ref":"#"}}}`,
		`{}`,
	}
	for i, text := range schemas {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p := prompt(specs(allTools...), say("user", "go"))
			p.Schema = json.RawMessage(text)
			answer := b.must(p).Text
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
			require.NoError(t, err, answer)

			if strings.Contains(text, `"$ref":"#"`) {
				return // endless by its nature: cut at a depth
			}

			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			require.NoError(t, err)

			compiler := jsonschema.NewCompiler()
			require.NoError(t, compiler.AddResource("s.json", doc))
			schema, err := compiler.Compile("s.json")
			require.NoError(t, err)
			require.NoError(t, schema.Validate(value), answer)
		})
	}
}

// A second service stands for a restart.
func TestDemo_deterministic(t *testing.T) {
	a, b := start(t, mock.Config{}), start(t, mock.Config{})
	for _, said := range []string{"hi", "build it", "count to 3", "ask me a question", "parallel"} {
		one := a.play(specs(allTools...), "", say("user", said))
		two := b.play(specs(allTools...), "", say("user", said))
		require.Equal(t, withoutIDs(one), withoutIDs(two))
	}
}

func withoutIDs(replies []domain.Reply) []domain.Reply {
	for _, r := range replies {
		for i := range r.Calls {
			r.Calls[i].ID = ""
		}
	}

	return replies
}

func TestCallIdsDiffer(t *testing.T) {
	b := start(t, mock.Config{})
	p := prompt(specs(allTools...), say("user", "parallel"))
	seen := map[string]bool{}

	for _, r := range []domain.Reply{b.must(p), b.must(p)} {
		for _, c := range r.Calls {
			require.False(t, seen[c.ID])
			seen[c.ID] = true
		}
	}
}
