package mock

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed demo.yaml
var demoYAML []byte

// demo is the content of demo.yaml.
var demo = func() (d demonstration) {
	decoder := yaml.NewDecoder(bytes.NewReader(demoYAML))
	decoder.KnownFields(true)

	if err := decoder.Decode(&d); err != nil {
		panic("demo.yaml: " + err.Error())
	}

	return d
}()

type demonstration struct {
	Texts    map[string]string
	Done     move // after the last move of a script
	Schema   move // for requests with a response schema
	NoTools  move `yaml:"no_tools"`
	Tour     []move
	Unknown  []move
	Planning []move
	Scripts  []struct {
		Words *regexp.Regexp
		Moves []move
	}
}

// move is one answer of the demonstration.
type move struct {
	Thinking string
	Say      string
	Calls    []demoCall
	Optional bool // without its tools only its text is sent
	Repeat   bool // as often as the user requested
	Next     []branch

	said   string // the message or answer that selected the move
	number int    // of a repeated move, from 1
}

type demoCall struct {
	Name      string
	Arguments map[string]any
}

// branch continues a script after a question.
type branch struct {
	Choice *regexp.Regexp // matches the answer in lower case; nil matches any
	Script bool           // select a script by the words of the answer
	Moves  []move
}

// scene is the data of the templates in demo.yaml.
type scene struct {
	Texts         map[string]string
	User          string   // the user's message, shortened
	Said          string   // the message or answer that selected the move, in lower case
	Result        string   // the last tool result, shortened
	Output        string   // Result as a code block that follows a sentence
	Results       []string // first lines of the last tool results
	Query         string   // what to search the web for
	Address       string   // of the first page found; empty when it cannot be fetched
	Number, Count int      // of a repeated move
}

// demoStep returns the demonstration's answer.
func demoStep(c *conversation) Step {
	switch {
	case c.task == taskTitle:
		return Step{Text: title(c)}
	case c.task == taskSummary:
		return Step{Text: summary(c)}
	case c.task == taskPage:
		return Step{Text: pageAnswer(c)}
	case c.req.schema() != nil:
		return Step{Thinking: demo.Schema.Thinking, Text: sample(c.req.schema())}
	case len(c.req.Tools) == 0:
		return c.render(demo.NoTools)
	}

	step := c.render(c.currentMove())
	if c.first && c.step == 0 {
		step.Text = demo.Texts["introduction"] + step.Text
	}

	return step
}

// selectScript returns the moves for the user's message.
func (c *conversation) selectScript() []move {
	if c.req.offers("SubmitPlan") {
		return demo.Planning
	}
	if moves := scriptByWords(strings.ToLower(c.user)); moves != nil {
		return moves
	}
	if c.first {
		return demo.Tour
	}
	return demo.Unknown
}

func scriptByWords(said string) []move {
	for _, s := range demo.Scripts {
		if s.Words.MatchString(said) {
			return s.Moves
		}
	}
	return nil
}

// currentMove returns the move that answers this model call. It follows the branches that
// the user chose.
func (c *conversation) currentMove() move {
	moves := c.prepare(c.selectScript(), strings.ToLower(c.user))
	for i := 0; i < len(moves); i++ {
		if i == c.step {
			return moves[i]
		}

		if moves[i].Next != nil {
			answer := c.answer(i)
			moves = append(slices.Clone(moves[:i+1]), c.prepare(selectBranch(moves[i].Next, answer), answer)...)
		}
	}

	return demo.Done
}

func selectBranch(branches []branch, answer string) []move {
	for _, b := range branches {
		switch {
		case b.Script:
			if moves := scriptByWords(answer); moves != nil {
				return moves
			}
		case b.Choice == nil || b.Choice.MatchString(answer):
			return b.Moves
		}
	}

	return nil
}

// prepare removes calls of tools that are not offered and repeats moves. said is the text that
// selected the moves.
func (c *conversation) prepare(moves []move, said string) (out []move) {
	for _, m := range moves {
		m.said = said

		if len(m.Calls) > 0 {
			m.Calls = slices.DeleteFunc(slices.Clone(m.Calls), func(call demoCall) bool { return !c.req.offers(call.Name) })
			if len(m.Calls) == 0 && !m.Optional {
				continue
			}
		}

		times := 1
		if m.Repeat {
			times = repetitions(said)
		}

		for m.number = 1; m.number <= times; m.number++ {
			out = append(out, m)
		}
	}

	return out
}

var (
	countTo     = regexp.MustCompile(`\bcount(?: up)?(?: to)? (\d{1,3})\b`)
	webWords    = regexp.MustCompile(`\b(please|can you|search|for|the|web|internet|online|look up|on|in|me|a|an|find)\b|[^\w\s-]`)
	pageAddress = regexp.MustCompile(`\bhttps?://\S+/pages/\S+`)
)

func repetitions(said string) int {
	if match := countTo.FindStringSubmatch(said); match != nil {
		n, _ := strconv.Atoi(match[1]) // at most three digits
		return min(max(n, 1), 20)
	}
	return 3
}

func searchQuery(said string) string {
	query := strings.TrimSpace(webWords.ReplaceAllString(said, " "))
	if len(query) < 2 {
		return "durable execution"
	}
	return query[:prefixLength(query, 200)]
}

// render expands the templates of a move.
func (c *conversation) render(m move) Step {
	data := scene{
		Texts: demo.Texts, User: excerpt(c.user, 3, 200), Said: m.said, Query: searchQuery(m.said),
		Number: m.number, Count: repetitions(m.said),
	}

	for _, result := range c.results(c.step - 1) {
		data.Result = excerpt(result, 12, 800)
		data.Results = append(data.Results, excerpt(result, 1, 80))

		if data.Address == "" && c.req.offers("WebFetch") {
			data.Address = pageAddress.FindString(result)
		}
	}

	data.Output = codeBlock(data.Result)

	step := Step{Thinking: m.Thinking, Text: data.expand(m.Say).(string)}

	for _, call := range m.Calls {
		arguments, _ := data.expand(call.Arguments).(map[string]any)
		if m.Optional && slices.Contains(slices.Collect(maps.Values(arguments)), any("")) {
			continue // the argument is not known
		}

		text, _ := json.Marshal(arguments) // values of YAML always encode
		step.Calls = append(step.Calls, Call{Name: call.Name, Arguments: text})
	}

	return step
}

// expand returns value with its templates expanded.
func (s *scene) expand(value any) any {
	switch v := value.(type) {
	case string:
		var out strings.Builder
		if err := template.Must(template.New("").Parse(v)).Execute(&out, s); err != nil {
			panic("demo.yaml: " + err.Error())
		}

		return out.String()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.expand(v[i])
		}

		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = s.expand(v[name])
		}

		return out
	}

	return value
}

func codeBlock(text string) string {
	if text == "" {
		return " (no output)"
	}

	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}

	return "\n\n" + fence + "\n" + text + "\n" + fence
}
