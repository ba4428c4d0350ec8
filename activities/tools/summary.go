package tools

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

const maxSummary = 120

// member gives the summary of a tool by one argument of it.
func member(names ...string) func(json.RawMessage) string {
	return func(arguments json.RawMessage) string {
		var in map[string]any
		if json.Unmarshal(arguments, &in) != nil {
			return ""
		}
		var parts []string
		for _, name := range names {
			if text, ok := in[name].(string); ok && text != "" {
				parts = append(parts, first(text, 4*maxSummary))
			}
		}
		return strings.Join(parts, " in ")
	}
}

// oneLine folds white space and drops what cannot be shown.
func oneLine(s string) string {
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
	{regexp.MustCompile(`(?i)((?:[\w-]*` + secretName + `[\w-]*["']?\s*[=:]|--[\w-]*` + secretName + `[\w-]*)\s*)("[^"]*"?|'[^']*'?|[^\s;&|]+)`), "${1}***"},
	// user:password@host
	{regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`), "${1}***@"},
	// keys that services mark by a prefix, and long runs that no word has
	{regexp.MustCompile(`\b(?:el_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abprs]-|AKIA)[\w-]{8,}`), "***"},
	{regexp.MustCompile(`\b[A-Za-z0-9+_=-]*[0-9][A-Za-z0-9+_=-]{39,}`), "***"},
}

func redact(s string) string {
	for _, secret := range secrets {
		s = secret.form.ReplaceAllString(s, secret.with)
	}
	return s
}
