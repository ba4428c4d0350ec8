package domain

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

// Decide gives what the rules say of a tool call: the first rule that matches
// decides, and a call that no rule matches is allowed. A shell command is looked
// at in its parts too, so that `cd x && git push` is a `git push`: what is denied
// or asked about in any part is so for the whole, what is allowed must be allowed
// in every part. It is a policy for an agent that means well, not a confinement:
// that is the sandbox's.
func Decide(rules []PermissionRule, tool string, arguments json.RawMessage) PermissionDecision {
	if len(rules) == 0 {
		return PermissionAllow
	}

	decision := PermissionAllow

	for _, part := range permissionParts(tool, arguments) {
		switch decide(rules, tool, part) {
		case PermissionDeny:
			return PermissionDeny
		case PermissionAsk:
			decision = PermissionAsk
		case PermissionAllow:
		}
	}

	return decision
}

// AllowingRules gives the rules which, put before the others, allow this call the
// next time it is made. None: no rule can distinguish the call from others.
func AllowingRules(rules []PermissionRule, tool string, arguments json.RawMessage) []PermissionRule {
	var allowing []PermissionRule

	for _, part := range permissionParts(tool, arguments) {
		if decide(rules, tool, part) != PermissionAsk {
			continue
		}

		if part == "" || len(part) > MaxPermissionPattern || strings.ContainsAny(part, "*\x00") {
			return nil
		}

		allowing = append(allowing, PermissionRule{Tool: tool, Pattern: part, Decision: PermissionAllow})
	}

	return allowing
}

// MaxPermissionPattern bounds the pattern of a rule, in bytes; MaxPermissionRules
// is how many rules a session may have of its own.
const (
	MaxPermissionPattern = 2000
	MaxPermissionRules   = 200
)

// permissionParts gives what the rules are asked about, the whole call last.
func permissionParts(tool string, arguments json.RawMessage) []string {
	subject := PermissionSubject(arguments)
	if tool != "Bash" {
		return []string{subject}
	}

	parts := commandParts(subject)
	if len(parts) == 1 && parts[0] == subject {
		return parts
	}

	return append(parts, subject)
}

func decide(rules []PermissionRule, tool, subject string) PermissionDecision {
	for _, rule := range rules {
		if matchesGlob(rule.Tool, tool) && (rule.Pattern == "" || matchesSubject(rule.Pattern, subject)) {
			return rule.Decision
		}
	}

	return PermissionAllow
}

// subjects are the arguments that say what a call is about, the first that is
// there; a call without any is judged by all of its arguments.
var subjects = []string{"command", "file_path", "url", "path", "query", "name", "subagent_type", "pattern"}

// PermissionSubject is the argument of a call that its pattern is held against:
// what the call is about.
func PermissionSubject(arguments json.RawMessage) string {
	var in map[string]any
	if json.Unmarshal(arguments, &in) == nil {
		for _, name := range subjects {
			if text, ok := in[name].(string); ok {
				return strings.TrimSpace(text)
			}
		}
	}

	return string(arguments)
}

var commandBreak = regexp.MustCompile(`&&|\|\||[;|&\n]|\$\(|[()` + "`" + `]`)

// commandParts splits a command where a shell begins another. Quoting is not
// looked at: a part too many only asks once too often.
func commandParts(command string) []string {
	var parts []string

	for _, part := range commandBreak.Split(command, -1) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}

	return parts
}

// matchesSubject is matchesGlob, but that a pattern for a URL matches its origin
// and its path each on their own, so that no path passes for a host; a pattern without a path takes any.
func matchesSubject(pattern, subject string) bool {
	origin, path, isURL := splitURL(pattern)
	if !isURL {
		return matchesGlob(pattern, subject)
	}

	askedOrigin, askedPath, isURL := splitURL(subject)

	return isURL && matchesGlob(origin, askedOrigin) && (path == "" || matchesGlob(path, askedPath))
}

func splitURL(url string) (origin, path string, ok bool) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) && r != '*' }) {
		return "", "", false
	}

	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}

	return strings.ToLower(scheme + "://" + rest[:end]), rest[end:], true
}

// matchesGlob reports whether the whole text fits a pattern in which * stands
// for any text, line breaks included.
func matchesGlob(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}

	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}

	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}

		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}

		text, rest = after, more
	}
}
