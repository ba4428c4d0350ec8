package permission

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is a word of a command: as written, and as the command receives it. Parts that are
// determined only at execution are unknown in the text.
type word struct{ source, text string }

func sourceOf(w word) string { return w.source }
func textOf(w word) string   { return w.text }

// join returns words in one spelling, separated by single blanks.
func join(spelling func(word) string, groups ...[]word) string {
	var out []string

	for _, group := range groups {
		for _, w := range group {
			out = append(out, spelling(w))
		}
	}

	return strings.Join(out, " ")
}

// scriptSource is the text of a script.
type scriptSource string

// of returns the text of a node.
func (s scriptSource) of(node syntax.Node) string {
	from, to := int(node.Pos().Offset()), int(node.End().Offset())
	if from > to || to > len(s) {
		return ""
	}

	return string(s[from:to])
}

func (s scriptSource) call(stmt *syntax.Stmt, call *syntax.CallExpr) simpleCall {
	var out simpleCall

	for _, assign := range call.Assigns {
		w := word{source: s.of(assign)}
		w.text = w.source

		if assign.Value != nil && assign.Name != nil && assign.Index == nil && !assign.Append {
			w.text = assign.Name.Value + "=" + resolve(assign.Value)
		}

		out.assigns = append(out.assigns, w)
	}

	for _, arg := range call.Args {
		out.words = append(out.words, word{s.of(arg), resolve(arg)})
	}

	for _, redirect := range stmt.Redirs {
		out.redirs = append(out.redirs, s.redirection(redirect))
	}

	return out
}

func (s scriptSource) redirection(r *syntax.Redirect) redirection {
	number := ""
	if r.N != nil {
		number = r.N.Value
	}

	out := redirection{word: word{source: s.of(r), text: number + r.Op.String()}}

	switch {
	case r.Hdoc != nil:
		out.feeds, out.script = true, word{source: s.of(r.Hdoc), text: resolveQuoted(r.Hdoc.Parts)}
	case r.Op == syntax.WordHdoc:
		out.feeds, out.script = true, word{source: s.of(r.Word), text: resolve(r.Word)}
	}

	if r.Word != nil {
		out.text += " " + resolve(r.Word)
	}

	return out
}

// resolve returns a word without its quotes.
func resolve(w *syntax.Word) string {
	var out strings.Builder

	for i, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			out.WriteString(resolvePart(part))
			continue
		}

		text, braces := resolveLiteral(lit.Value, i == 0, len(w.Parts) == 1)
		out.WriteString(text)

		if braces {
			out.WriteRune(unknown)
			return out.String()
		}
	}

	return out.String()
}

func resolvePart(part syntax.WordPart) string {
	switch p := part.(type) {
	case *syntax.SglQuoted:
		if !p.Dollar {
			return p.Value
		}

		text, _, err := expand.Format(nil, p.Value, nil)
		if err != nil {
			return string(unknown)
		}

		return text
	case *syntax.DblQuoted:
		return resolveQuoted(p.Parts)
	default:
		return string(unknown)
	}
}

// resolveQuoted returns text within double quotes or a here-document.
func resolveQuoted(parts []syntax.WordPart) string {
	var out strings.Builder

	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			out.WriteString(resolvePart(part))
			continue
		}

		out.WriteString(quotedEscapes.Replace(lit.Value))
	}

	return out.String()
}

var quotedEscapes = strings.NewReplacer(`\$`, `$`, "\\`", "`", `\"`, `"`, `\\`, `\`, "\\\n", "")

// resolveLiteral returns text without quotes, with the characters that the shell expands as
// unknown. Brace expansion can result in several words: the rest is then unknown.
func resolveLiteral(text string, first, alone bool) (resolved string, braces bool) {
	if alone && text == "[" {
		return text, false
	}

	var out strings.Builder

	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\n' {
				out.WriteByte(text[i])
			}
		case c == '*' || c == '?' || c == '[' || c == '~' && i == 0 && first:
			out.WriteRune(unknown)
		case c == '{' && !strings.HasPrefix(text[i:], "{}"):
			return out.String(), true
		default:
			out.WriteByte(c)
		}
	}

	return out.String(), false
}
