package mock

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// title makes a short title from what the user said.
func title(c *conversation) string {
	words := strings.Fields(subject(c))
	if len(words) == 0 {
		return "Demo conversation"
	}

	text := strings.Join(words[:min(6, len(words))], " ")

	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
	if text == "" {
		return "Demo conversation"
	}

	if n := prefixLength(text, 60); n < len(text) {
		text = text[:n]
	}

	first := prefixLength(text, 1)

	return strings.ToUpper(text[:first]) + text[first:]
}

// subject is the material of a title: what follows "User:" where a transcript
// is quoted, else the message without the line that orders the title.
func subject(c *conversation) string {
	for _, line := range strings.Split(c.user, "\n") {
		if before, after, found := strings.Cut(line, ":"); found && strings.EqualFold(strings.TrimSpace(before), "user") {
			return after
		}
	}

	if titleWord.MatchString(c.system()) {
		return c.user
	}

	lines := slices.DeleteFunc(strings.Split(c.user, "\n"), titleWord.MatchString)

	return strings.Join(lines, " ")
}

// summary says what was said and done, in plain sentences.
func summary(c *conversation) string {
	var asked, tools []string

	last := ""

	for _, m := range c.req.Messages {
		switch m.Role {
		case "user":
			if lines := quotedUser(string(m.Content)); len(lines) > 0 {
				asked = append(asked, lines...)
			} else if text := withoutScript(string(m.Content)); text != "" && !isReminder(text) {
				asked = append(asked, "- "+strings.ReplaceAll(excerpt(text, 2, 160), "\n", " "))
			}
		case "assistant":
			if m.Content != "" {
				last = string(m.Content)
			}

			for _, call := range m.ToolCalls {
				if !slices.Contains(tools, call.Function.Name) {
					tools = append(tools, call.Function.Name)
				}
			}
		}
	}

	var text strings.Builder
	fmt.Fprintf(&text, "Summary by the scripted demo.\n\nThe user said:\n%s\n", strings.Join(asked[max(len(asked)-20, 0):], "\n"))

	if len(tools) > 0 {
		fmt.Fprintf(&text, "\nTools used so far: %s.\n", strings.Join(tools, ", "))
	}

	if last != "" {
		fmt.Fprintf(&text, "\nThe last answer was: %s\n", excerpt(last, 4, 300))
	}

	return text.String() + progress(c.quoted())
}

// pageAnswer stands for what a model would find in a page.
func pageAnswer(c *conversation) string {
	_, page, _ := strings.Cut(c.user, "<page url=")
	_, page, _ = strings.Cut(page, "\n")
	page = strings.TrimSuffix(strings.TrimSpace(page), "</page>")

	return "(The scripted demo cannot read. The page begins like this.)\n\n" + excerpt(page, 8, 500)
}
