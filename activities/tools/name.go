package tools

import (
	"regexp"
	"strings"

	"everloop/domain"
)

// controlToken is a token of a chat template that a server has left in the name of a tool.
var controlToken = regexp.MustCompile(`<[|｜][^<>]*[|｜]>`)

// Name returns the name of the tool that a model means: without the control tokens of its chat
// template, and what follows them. A name that no tool has loses them, too, so that they
// are not sent back to the model.
func (t *Toolset) Name(requested string) string {
	requested = domain.CleanText(requested)
	if _, ok := t.byName[requested]; ok {
		return requested
	}

	name := strings.TrimSpace(controlToken.ReplaceAllString(requested, " "))
	if i := strings.IndexAny(name, "< \t\r\n"); i >= 0 {
		name = name[:i]
	}

	return name
}
