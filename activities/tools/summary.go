package tools

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	maxSummary    = 120
	maxRunSummary = 80
)

// SummaryBy gives the summary of a tool by one argument of it.
func SummaryBy(names ...string) func(json.RawMessage) string {
	return func(arguments json.RawMessage) string {
		var in map[string]any
		if json.Unmarshal(arguments, &in) != nil {
			return ""
		}

		var parts []string

		for _, name := range names {
			if text, ok := in[name].(string); ok && text != "" {
				parts = append(parts, First(text, 4*maxSummary))
			}
		}

		return strings.Join(parts, " in ")
	}
}

// SummaryByFirst returns the first of some arguments that is there.
func SummaryByFirst(names ...string) func(json.RawMessage) string {
	return func(arguments json.RawMessage) string {
		for _, name := range names {
			if text := SummaryBy(name)(arguments); text != "" {
				return text
			}
		}

		return ""
	}
}

// OneLine folds white space and drops what cannot be shown.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")

	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}

		return r
	}, s)
}

const secretName = `(?:token|secret|passw(?:or)?d|pwd|api_?-?key|access_?-?key|credential|auth)`

var secrets = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"']+`), "${1} ***"},
	// NAME=value, "name": "value" and --name value, where the name speaks of a secret
	{regexp.MustCompile(`(?i)((?:[\w-]*` + secretName + `[\w-]*["']?\s*[=:]|--[\w-]*` + secretName + `[\w-]*)\s*)` +
		`("[^"]*"?|'[^']*'?|[^\s;&|]+)`), "${1}***"},
	// user:password@host
	{regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`), "${1}***@"},
	// keys that services mark by a prefix, and long runs that no word has
	{regexp.MustCompile(`\b(?:el_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abprs]-|AKIA)[\w-]{8,}`), "***"},
	{regexp.MustCompile(`\b[A-Za-z0-9+_=-]*[0-9][A-Za-z0-9+_=-]{39,}`), "***"},
}

// Redact hides what looks like a secret.
func Redact(s string) string {
	for _, secret := range secrets {
		s = secret.form.ReplaceAllString(s, secret.with)
	}

	return s
}

// leastMasked is the least length of a value that is masked wherever it stands: shorter
// ones, as 1 or true, would mask what is no secret.
const leastMasked = 4

// maskValues replaces values, the longest first, as one may be a part of another.
func maskValues(s string, values []string) string {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return len(v) < leastMasked })
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })

	for _, value := range values {
		s = strings.ReplaceAll(s, value, "***")
	}

	return s
}
