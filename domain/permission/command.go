package permission

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"everloop/domain"
)

// Bounds of nested scripts, such as the argument of bash -c, and of the words of a prefix that
// can start the command.
const (
	maxNesting  = 8
	maxSuffixes = 32
)

// operators are the characters of a pattern that matches several commands or a redirection.
const operators = ";|&\n(){}<>`"

// commandSubjects returns the commands of a script, and the script as a whole. The whole script
// is judged by the rules up to the last one that decided about a command.
func commandSubjects(rules []domain.PermissionRule, script string) []subject {
	found := &commands{}
	found.addScript(script, 0)

	last := 1

	for _, s := range found.subjects {
		_, rule := s.decide(rules)
		last = max(last, rule+1)
	}

	return append(found.subjects, subject{texts: []string{strings.TrimSpace(script)}, rules: last, script: true, allowed: nil})
}

// commands collects the commands of a script.
type commands struct {
	subjects []subject
	words    []string
}

// addScript adds every command of a script, and of the scripts in it.
func (c *commands) addScript(script string, depth int) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil || depth > maxNesting {
		c.addUnknown(script)
		return
	}

	source := scriptSource(script)

	syntax.Walk(file, func(node syntax.Node) bool {
		stmt, ok := node.(*syntax.Stmt)
		if !ok {
			return true
		}

		switch command := stmt.Cmd.(type) {
		case *syntax.CallExpr:
			c.addCall(source.call(stmt, command), depth)
		case *syntax.DeclClause, *syntax.LetClause, nil:
			c.addText(source.of(stmt))
		}

		return true
	})
}

// addUnknown adds a script that cannot be parsed, or is determined only at execution. Any rule
// with a pattern can match it.
func (c *commands) addUnknown(script string) {
	s := subject{texts: []string{strings.TrimSpace(script)}, possible: []string{string(unknown)}}
	for _, part := range commandBreak.Split(script, -1) {
		s.texts = append(s.texts, strings.TrimSpace(part))
	}

	c.subjects = append(c.subjects, s)
}

var commandBreak = regexp.MustCompile(`&&|\|\||[;|&\n]|\$\(|[()` + "`" + `]`)

// addText adds a statement that is not a command, such as a declaration.
func (c *commands) addText(text string) {
	text = strings.TrimRight(text, "; \t\n")
	c.subjects = append(c.subjects, subject{texts: []string{text}, allowed: [][]string{{text}}})
}

// addCall adds a simple command, and the commands that it runs.
func (c *commands) addCall(call simpleCall, depth int) {
	c.subjects = append(c.subjects, call.subject())
	c.addWords(call)

	if len(call.words) == 0 {
		return
	}

	if depth > maxNesting {
		c.addUnknown(call.source())
		return
	}

	c.addInner(call, depth+1)
}

// simpleCall is one command of a script: assignments, words and redirections.
type simpleCall struct {
	assigns, words []word
	redirs         []redirection
}

// redirection is one redirection; script is the text that it feeds to the command.
type redirection struct {
	word

	feeds  bool
	script word
}

func (s simpleCall) source() string { return join(sourceOf, s.assigns, s.words) }

// with returns the call with other words and without its assignments.
func (s simpleCall) with(words []word) simpleCall { return simpleCall{words: words, redirs: s.redirs} }

func (s simpleCall) subject() subject {
	redirs := make([]word, len(s.redirs))
	for i, r := range s.redirs {
		redirs[i] = r.word
	}

	full := []string{join(sourceOf, s.assigns, s.words, redirs), join(textOf, s.assigns, s.words, redirs)}
	texts := append(full, join(sourceOf, s.words), join(textOf, s.words), join(textOf, s.words, redirs))

	if named := baseNamed(s.words); named != nil {
		texts = append(texts, join(sourceOf, named), join(textOf, named), join(textOf, named, redirs))
	}

	out := subject{texts: texts, allowed: [][]string{full}}

	for _, text := range texts {
		if strings.ContainsRune(text, unknown) {
			out.possible = append(out.possible, text)
		}
	}

	return out
}

// baseNamed returns the words with the directory of the program removed; nil: it has none.
func baseNamed(words []word) []word {
	if len(words) == 0 {
		return nil
	}

	cut := strings.LastIndexByte(words[0].text, '/')
	if cut < 0 {
		return nil
	}

	name := words[0].text[cut+1:]
	named := slices.Clone(words)
	named[0] = word{name, name}

	return named
}
