package mock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// move is one answer of the demonstration: something said, and tools used.
type move struct {
	thinking string
	say      func(*conversation) string
	calls    []Call
	// act makes the calls from what was said and done so far, in place of calls.
	act func(*conversation) []Call
	// next continues after a question, by what the user chose.
	next func(chosen string) []move
}

// introduction opens every conversation: no reader is to take the script for a
// model.
const introduction = "**I am Everloop's scripted demo, not a real model.** I follow a prepared script and understand only a few words; " +
	"the tools that I use, the files and the streaming are real. To talk to a real model, configure a model server (`LLM_GATEWAY_URL`).\n\n"

// demo answers as the demonstration model.
func demo(c *conversation) Step {
	switch {
	case c.task == taskTitle:
		return Step{Text: title(c)}
	case c.task == taskSummary:
		return Step{Text: summary(c)}
	case c.task == taskPage:
		return Step{Text: pageAnswer(c)}
	case c.req.schema() != nil:
		return Step{Thinking: "The answer must follow a schema, so I make one that fits.", Text: sample(c.req.schema())}
	case len(c.req.Tools) == 0:
		return Step{
			Thinking: "There are no tools, so text must do.",
			Text: introduction + "I was offered no tools here, so I can only say that I received your message: “" +
				excerpt(c.user, 3, 200) + "”",
		}
	}

	m := c.walk(c.choose())

	step := Step{Thinking: m.thinking, Calls: m.calls}
	if m.act != nil {
		step.Calls = m.act(c)
	}

	if m.say != nil {
		step.Text = m.say(c)
	}

	if c.first && c.step == 0 {
		step.Text = introduction + step.Text
	}

	return step
}

// walk finds the move that is due, following the branches that the user chose.
func (c *conversation) walk(moves []move) move {
	moves = c.possible(moves)
	for i := 0; i < len(moves); i++ {
		if i == c.step {
			return moves[i]
		}

		if moves[i].next != nil {
			moves = append(slices.Clone(moves[:i+1]), c.possible(moves[i].next(c.answer(i)))...)
		}
	}

	return move{say: says("That was the whole script. Ask for something else: " + menu)}
}

// possible leaves out what needs tools that are not offered.
func (c *conversation) possible(moves []move) []move {
	var out []move

	for _, m := range moves {
		if len(m.calls) > 0 {
			m.calls = slices.DeleteFunc(slices.Clone(m.calls), func(call Call) bool { return !c.req.offers(call.Name) })
			if len(m.calls) == 0 {
				continue
			}
		}

		out = append(out, m)
	}

	return out
}

// says is a fixed text.
func says(text string) func(*conversation) string {
	return func(*conversation) string { return text }
}

// reports is a text around the newest tool result.
func reports(before, after string) func(*conversation) string {
	return func(c *conversation) string {
		result := c.lastResult()
		if result == "" {
			return before + " (no output)\n\n" + after
		}

		fence := "```"
		for strings.Contains(result, fence) {
			fence += "`"
		}

		return fmt.Sprintf("%s\n\n%s\n%s\n%s\n\n%s", before, fence, result, fence, after)
	}
}

// use makes a call with arguments.
func use(tool string, arguments map[string]any) Call {
	text, _ := json.Marshal(arguments) // strings, numbers and lists always encode
	return Call{Name: tool, Arguments: text}
}

func bash(command, description string) Call {
	return use("Bash", map[string]any{"command": command, "description": description})
}

// option is a choice in a question.
type option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// question is one question of AskUserQuestion.
type question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []option `json:"options"`
	MultiSelect bool     `json:"multiSelect"`
}

func ask(questions ...question) Call {
	return use("AskUserQuestion", map[string]any{"questions": questions})
}
