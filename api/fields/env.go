package fields

import (
	"strings"

	"everloop/domain"
)

// Bounds of an environment.
const (
	maxEnvVars  = 500
	MaxEnvBytes = 100_000 // all names and values: what a process can be given
)

// CleanEnv checks an environment. Its errors name a variable and never a value.
func CleanEnv(given map[string]string) (map[string]string, error) {
	if len(given) > maxEnvVars {
		return nil, domain.Invalidf("body.env", "has more than %d variables", maxEnvVars)
	}

	env := make(map[string]string, len(given))
	size := 0

	for name, v := range given {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v, "\x00") {
			return nil, domain.Invalidf("body.env", "has a name that is empty or holds =, or a NUL character")
		}

		size += len(name) + len(v) + 2
		env[name] = v
	}

	if size > MaxEnvBytes {
		return nil, domain.Invalidf("body.env", "is larger than %d bytes", MaxEnvBytes)
	}

	return env, nil
}
