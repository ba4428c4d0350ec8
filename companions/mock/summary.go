package mock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// title returns a short title of the user's message.
func title(c *conversation) string {
	words := strings.Fields(titleSubject(c))
	text := strings.TrimFunc(strings.Join(words[:min(6, len(words))], " "), func(r rune) bool {
		return unicode.IsPunct(r) || unicode.IsSpace(r)
	})
	if text == "" {
		return "Demo conversation"
	}
	text = text[:prefixLength(text, 60)]
	first := prefixLength(text, 1)
	return strings.ToUpper(text[:first]) + text[first:]
}

// titleSubject returns the text after "User:" of a quoted transcript, or else the message
// without the line that orders the title.
func titleSubject(c *conversation) string {
	lines := strings.Split(c.user, "\n")
	for _, line := range lines {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(before), "user") {
			return after
		}
	}
	if titleWord.MatchString(c.system()) {
		return c.user
	}
	return strings.Join(slices.DeleteFunc(lines, titleWord.MatchString), " ")
}

// summary returns a summary of the conversation.
func summary(c *conversation) string {
	var said, tools []string

	last := ""

	for _, m := range c.req.Messages {
		content := string(m.Content)

		switch m.Role {
		case "user":
			if lines := quotedUser(content); len(lines) > 0 {
				said = append(said, lines...)
			} else if text := withoutScript(content); text != "" && !isReminder(text) {
				said = append(said, "- "+strings.ReplaceAll(excerpt(text, 2, 160), "\n", " "))
			}
		case "assistant":
			if content != "" {
				last = content
			}

			for _, call := range m.ToolCalls {
				if !slices.Contains(tools, call.Function.Name) {
					tools = append(tools, call.Function.Name)
				}
			}
		}
	}

	text := "Summary by the scripted demo.\n\nThe user said:\n" + strings.Join(said[max(len(said)-20, 0):], "\n") + "\n"
	if len(tools) > 0 {
		text += "\nTools used so far: " + strings.Join(tools, ", ") + ".\n"
	}

	if last != "" {
		text += "\nThe last answer was: " + excerpt(last, 4, 300) + "\n"
	}

	return text + scriptProgress(c.quoted())
}

// pageAnswer returns the beginning of the page instead of an answer from it.
func pageAnswer(c *conversation) string {
	_, page, _ := strings.Cut(c.user, "<page url=")
	_, page, _ = strings.Cut(page, "\n")
	page = strings.TrimSuffix(strings.TrimSpace(page), "</page>")
	return "(The scripted demo cannot read. The page begins like this.)\n\n" + excerpt(page, 8, 500)
}

// A request for a summary quotes the conversation in one message. Its lines start with
// "User:" and "Assistant:".
var (
	userLine      = regexp.MustCompile(`(?m)^User: `)
	assistantLine = regexp.MustCompile(`(?m)^Assistant: `)
	progressLine  = regexp.MustCompile(`Script ([0-9a-f]{8}): (\d+) answers so far\.`)
)

// quoted returns the message that quotes the conversation.
func (c *conversation) quoted() string {
	for _, m := range slices.Backward(c.req.Messages) {
		if m.Role == "user" {
			return string(m.Content)
		}
	}
	return ""
}

// quotedUser lists the user's messages of a quoted conversation.
func quotedUser(text string) (lines []string) {
	starts := userLine.FindAllStringIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}

		said, _, _ := strings.Cut(withoutScript(text[start[1]:end]), "\n")
		if said = strings.TrimSpace(said); said != "" {
			lines = append(lines, "- "+excerpt(said, 1, 160))
		}
	}

	return lines
}

// scriptedSummary returns the last summary that a quoted script orders, or nil.
func scriptedSummary(c *conversation) (step *Step) {
	if c.task != taskSummary {
		return nil
	}
	for rest := c.quoted(); strings.Contains(rest, scriptOpen); {
		if script, err := readScript(rest); err == nil && script.Summary != nil {
			step = script.Summary
		}
		_, rest, _ = strings.Cut(rest, scriptOpen)
	}
	return step
}

// scriptName identifies a script by its hash; empty for a text without one.
func scriptName(text string) string {
	_, rest, _ := strings.Cut(text, scriptOpen)
	var script json.RawMessage
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&script); err != nil {
		return ""
	}
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:4])
}

// scriptProgress returns the line of a summary that counts the answers of the last quoted
// script, so that the script continues after the summary.
func scriptProgress(quoted string) string {
	start, name := 0, ""

	for _, line := range userLine.FindAllStringIndex(quoted, -1) {
		said, _, _ := strings.Cut(quoted[line[1]:], "\nUser: ")
		if s := scriptName(said); s != "" {
			start, name = line[1], s
		}
	}

	earlier := progressLine.FindAllStringSubmatch(quoted, -1)
	if name == "" && len(earlier) > 0 {
		name = earlier[0][1]
	}

	if name == "" {
		return ""
	}

	n := len(assistantLine.FindAllString(quoted[start:], -1))
	if i := slices.IndexFunc(earlier, func(m []string) bool { return m[1] == name }); i >= 0 {
		before, _ := strconv.Atoi(earlier[i][2]) // digits
		n += before
	}

	return fmt.Sprintf("\nScript %s: %d answers so far.\n", name, n)
}

// summarizedAnswers returns the number of answers to a script that a summary among the
// messages replaced.
func summarizedAnswers(messages []chatMessage, name string) int {
	for _, m := range messages {
		match := progressLine.FindStringSubmatch(string(m.Content))
		if m.Role == "user" && isReminder(string(m.Content)) && match != nil && match[1] == name {
			n, _ := strconv.Atoi(match[2]) // digits
			return n
		}
	}
	return 0
}
