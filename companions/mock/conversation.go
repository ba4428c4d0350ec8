package mock

import (
	"encoding/json"
	"regexp"
	"strings"
)

// task is a job in addition to the conversation itself. Its requests offer no tools.
type task int

const (
	taskNone task = iota
	taskTitle
	taskSummary
	taskPage // answer a question about a page
)

// conversation is the view of a request that answers depend on.
type conversation struct {
	req   *chatRequest
	user  string        // the last user message, without reminders and scripts
	first bool          // no assistant message precedes it
	since []chatMessage // the messages after it
	step  int           // assistant messages after it
	task  task
}

func newConversation(req *chatRequest) *conversation {
	c := &conversation{req: req, first: true}

	for i, m := range req.Messages {
		switch {
		case m.Role == "assistant":
			c.step++
		case m.Role == "user" && !isReminder(string(m.Content)):
			c.user, c.since = withoutScript(string(m.Content)), req.Messages[i+1:]
			c.first = c.first && c.step == 0
			c.step = 0
		}
	}

	if len(req.Tools) == 0 {
		c.task = findTask(c.system(), c.user)
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

func findTask(system, user string) task {
	order := system + "\n" + user

	switch {
	case summaryWord.MatchString(system) && !titleWord.MatchString(system): // the conversation can contain any words
		return taskSummary
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

// results returns the tool results that answer the i-th assistant message since the user's.
func (c *conversation) results(i int) (out []string) {
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

// answer returns the labels and texts, in lower case, that answer the AskUserQuestion call
// of the i-th assistant message. It is empty for an unanswered question.
func (c *conversation) answer(i int) string {
	var chosen []string

	for _, result := range c.results(i) {
		var body struct {
			Answers []struct {
				Selected []string
				Custom   string
			}
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

// excerpt returns the first lines and characters of a text.
func excerpt(text string, lines, characters int) string {
	text = strings.TrimSpace(text)
	all := strings.Split(text, "\n")
	short := strings.Join(all[:min(lines, len(all))], "\n")
	short = short[:prefixLength(short, characters)]
	if len(short) < len(text) {
		short += " …"
	}
	return short
}

const (
	scriptClose   = "[[/script]]"
	reminderOpen  = "<system-reminder>"
	reminderClose = "</system-reminder>"
	paragraph     = "\n\n"
)

// isReminder reports whether the agent inserted a user message.
func isReminder(text string) bool { return strings.HasPrefix(text, reminderOpen) }

// separate splits the user messages that an agent joined, because the chat templates of some
// models reject two in a row. Reminders and messages with a script become messages again.
func separate(messages []chatMessage) []chatMessage {
	out := make([]chatMessage, 0, len(messages))

	for _, m := range messages {
		if m.Role != "user" || m.Content == "" {
			out = append(out, m)
			continue
		}

		for rest := string(m.Content); rest != ""; {
			end := firstMessage(rest)
			m.Content = messageContent(rest[:end])
			out = append(out, m)
			rest = strings.TrimPrefix(rest[end:], paragraph)
		}
	}

	return out
}

// firstMessage returns the length of the first message of a joined text.
func firstMessage(text string) int {
	end := len(text)

	if isReminder(text) {
		// Parts of a reminder's own message, such as the names of pictures, follow it.
		_, rest, closed := strings.Cut(text, reminderClose)
		if i := strings.Index(rest, paragraph); closed && i >= 0 {
			end = len(text) - len(rest) + i
		}

		return end
	}

	// A text without a script, such as the outputs of other nodes, belongs to the message
	// of the script before it.
	if i := strings.Index(text, scriptClose+paragraph); i >= 0 && strings.Contains(text[i:], scriptOpen) {
		end = i + len(scriptClose)
	}

	if i := strings.Index(text, paragraph+reminderOpen); i >= 0 {
		end = min(end, i)
	}

	return end
}
