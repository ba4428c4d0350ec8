package domain

import (
	"encoding/json"
	"slices"
	"strings"
)

// minSecret is the length of the shortest environment value that is masked in texts: shorter
// ones, such as "1" or "yes", occur in every text.
const minSecret = 4

// minSecretLine is the length of the shortest line of a value that is masked by itself.
const minSecretLine = 16

// ValueMasker returns a replacer of all values of the environments.
func ValueMasker(mask string, environments ...map[string]string) *strings.Replacer {
	var secrets []string

	for _, env := range environments {
		for _, value := range env {
			secrets = append(secrets, secretForms(value)...)
		}
	}

	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a value may be part of another

	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, mask)
	}

	return strings.NewReplacer(pairs...)
}

// secretForms returns the forms of a value in texts: unchanged, as a JSON string, and each long
// line of a value with several lines.
func secretForms(value string) []string {
	if value = strings.TrimSpace(value); len(value) < minSecret {
		return nil
	}

	all := []string{value}
	if quoted, err := json.Marshal(value); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}

	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minSecretLine {
				all = append(all, line)
			}
		}
	}

	return all
}
