package mock

import (
	"encoding/json"
	"regexp"
	"strings"
)

// task is a job that an agent gives its model beside the conversation itself.
// Such requests offer no tools.
type task int

const (
	taskNone task = iota
	taskTitle
	taskSummary
	taskPage // read a page and answer a question about it
)

// conversation is a request seen as a talk: what the user said last and what
// was done about it since.
type conversation struct {
	req   *chatRequest
	user  string        // the last user message, without reminders and scripts
	first bool          // nothing was answered before it
	since []chatMessage // the messages after it
	step  int           // assistant messages after it
	task  task
}

func newConversation(req *chatRequest) *conversation {
	c := &conversation{req: req, first: true}
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := req.Messages[i]
		if m.Role == "user" && !isReminder(string(m.Content)) {
			c.user = withoutScript(string(m.Content))

			c.since = req.Messages[i+1:]
			for _, earlier := range req.Messages[:i] {
				c.first = c.first && earlier.Role != "assistant"
			}

			break
		}
	}

	for _, m := range c.since {
		if m.Role == "assistant" {
			c.step++
		}
	}

	if len(req.Tools) == 0 {
		// A conversation that is to be summarised may hold any words.
		if system := c.system(); summaryWord.MatchString(system) && !titleWord.MatchString(system) {
			c.task = taskSummary
		} else {
			c.task = findTask(system + "\n" + c.user)
		}
	}

	return c
}

func (c *conversation) system() string {
	var texts []string

	for _, m := range c.req.Messages {
		if m.Role == "system" || m.Role == "developer" {
			texts = append(texts, string(m.Content))
		}
	}

	return strings.Join(texts, "\n")
}

var (
	titleWord   = regexp.MustCompile(`(?i)\btitle\b`)
	summaryWord = regexp.MustCompile(`(?i)\b(summar(y|ise|ize|ising|izing)|compact(ion|ing)?)\b`)
	scriptText  = regexp.MustCompile(`(?s)\[\[script\]\].*?(\[\[/script\]\]|$)`)
)

func findTask(order string) task {
	switch {
	case strings.Contains(order, "<page url="):
		return taskPage
	case titleWord.MatchString(order):
		return taskTitle
	case summaryWord.MatchString(order):
		return taskSummary
	}

	return taskNone
}

func withoutScript(text string) string {
	return strings.TrimSpace(scriptText.ReplaceAllString(text, ""))
}

// results gives the tool results that answer the i-th assistant message since
// the user spoke.
func (c *conversation) results(i int) []string {
	var out []string

	n := -1

	for _, m := range c.since {
		switch {
		case m.Role == "assistant":
			n++
		case m.Role == "tool" && n == i:
			out = append(out, string(m.Content))
		}
	}

	return out
}

// answer gives what the user chose in the AskUserQuestion call of the i-th
// assistant message: labels and free text, in lower case. It is empty when the
// question was not answered.
func (c *conversation) answer(i int) string {
	var chosen []string

	for _, result := range c.results(i) {
		var body struct {
			Answers []struct {
				Selected []string `json:"selected"`
				Custom   string   `json:"custom"`
			} `json:"answers"`
		}
		if json.Unmarshal([]byte(result), &body) != nil {
			continue
		}

		for _, a := range body.Answers {
			chosen = append(chosen, a.Selected...)
			if a.Custom != "" {
				chosen = append(chosen, a.Custom)
			}
		}
	}

	return strings.ToLower(strings.Join(chosen, ", "))
}

// lastResult is the newest tool result, shortened to be quoted.
func (c *conversation) lastResult() string {
	results := c.results(c.step - 1)
	if len(results) == 0 {
		return ""
	}

	return excerpt(results[len(results)-1], 12, 800)
}

// excerpt keeps the first lines and characters of a text.
func excerpt(text string, lines, characters int) string {
	text = strings.TrimSpace(text)
	all := strings.Split(text, "\n")

	short := strings.Join(all[:min(lines, len(all))], "\n")
	if n := prefixLength(short, characters); n < len(short) {
		short = short[:n]
	}

	if len(short) < len(text) {
		short += " …"
	}

	return short
}
