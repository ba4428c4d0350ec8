package permission

import "strings"

// unknown represents a part of a text that is determined only at execution, such as the value
// of a variable. Only * in a pattern covers it.
const unknown = '\x00'

// intersects reports whether some text matches both the pattern and the template, in which
// unknown matches any text.
func intersects(pattern, template string) bool {
	template = collapse(template, unknown)
	if strings.Trim(template, string(unknown)) == "" && template != "" {
		return true
	}

	// reachable[j]: the pattern up to here and template[:j] match some text.
	t := []rune(template)
	reachable := make([]bool, len(t)+1)
	reachable[0] = true

	spread(reachable, t)

	for _, r := range collapse(pattern, '*') {
		next := make([]bool, len(t)+1)

		for j := range reachable {
			if !reachable[j] {
				continue
			}

			if r == '*' {
				for k := j; k < len(next) && !next[k]; k++ {
					next[k] = true
				}

				continue
			}

			if j < len(t) && t[j] == unknown {
				next[j] = true // the unknown part includes this rune and may continue
			}

			if j < len(t) && t[j] == r {
				next[j+1] = true
			}
		}

		spread(next, t)
		reachable = next
	}

	return reachable[len(t)]
}

// spread adds the states in which unknown parts are empty or end.
func spread(reachable []bool, template []rune) {
	for j, r := range template {
		if reachable[j] && r == unknown {
			reachable[j+1] = true
		}
	}
}

// collapse joins runs of a rune.
func collapse(text string, run rune) string {
	var (
		out  strings.Builder
		last rune = -1
	)

	for _, r := range text {
		if r != run || last != run {
			out.WriteRune(r)
		}

		last = r
	}

	return out.String()
}
