package mock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A conversation that is to be summarised comes quoted, in one message: lines
// that begin with "User:" and "Assistant:" say who speaks.

var (
	userLine      = regexp.MustCompile(`(?m)^User: `)
	assistantLine = regexp.MustCompile(`(?m)^Assistant: `)
	progressLine  = regexp.MustCompile(`Script ([0-9a-f]{8}): (\d+) answers so far\.`)
)

// quoted is the message that quotes the conversation.
func (c *conversation) quoted() string {
	for i := len(c.req.Messages) - 1; i >= 0; i-- {
		if c.req.Messages[i].Role == "user" {
			return string(c.req.Messages[i].Content)
		}
	}

	return ""
}

// quotedUser lists what the user says in a quoted conversation.
func quotedUser(text string) (lines []string) {
	at := userLine.FindAllStringIndex(text, -1)
	for i, begin := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}

		said, _, _ := strings.Cut(withoutScript(text[begin[1]:end]), "\n")
		if said = strings.TrimSpace(said); said != "" {
			lines = append(lines, "- "+excerpt(said, 1, 160))
		}
	}

	return lines
}

// orderedSummary is the step that a quoted script orders for its summary; nil
// when none does.
func orderedSummary(c *conversation) *Step {
	if c.task != taskSummary {
		return nil
	}

	var found *Step

	rest := c.quoted()
	for {
		at := strings.Index(rest, scriptOpen)
		if at < 0 {
			return found
		}

		rest = rest[at:]
		if script, err := readScript(rest); err == nil && script != nil && script.Summary != nil {
			found = script.Summary
		}

		rest = rest[len(scriptOpen):]
	}
}

// scriptName identifies a script.
func scriptName(text string) string {
	_, rest, _ := strings.Cut(text, scriptOpen)

	var script json.RawMessage
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&script); err != nil {
		return ""
	}

	sum := sha256.Sum256(script)

	return hex.EncodeToString(sum[:4])
}

// progress notes in a summary how far the last quoted script has come, so that
// it goes on where it was.
func progress(quoted string) string {
	begin, name := 0, ""

	for _, line := range userLine.FindAllStringIndex(quoted, -1) {
		said, _, _ := strings.Cut(quoted[line[1]:], "\nUser: ")
		if found := scriptName(said); found != "" {
			begin, name = line[1], found
		}
	}

	if name == "" {
		if m := progressLine.FindStringSubmatch(quoted); m != nil {
			name = m[1]
		} else {
			return ""
		}
	}

	n := len(assistantLine.FindAllString(quoted[begin:], -1))
	for _, m := range progressLine.FindAllStringSubmatch(quoted, -1) {
		if m[1] == name {
			before, _ := strconv.Atoi(m[2]) // digits
			n += before

			break
		}
	}

	return fmt.Sprintf("\nScript %s: %d answers so far.\n", name, n)
}

// answersSummarised is how many answers to a script a summary among the messages
// stands for.
func answersSummarised(messages []chatMessage, name string) int {
	for _, m := range messages {
		if m.Role != "user" || !isReminder(string(m.Content)) {
			continue
		}

		if found := progressLine.FindStringSubmatch(string(m.Content)); found != nil && found[1] == name {
			n, _ := strconv.Atoi(found[2]) // digits
			return n
		}
	}

	return 0
}
