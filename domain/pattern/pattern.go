// Package pattern bounds the cost of the regular expressions and glob patterns of users and
// models: both are short texts that can require gigabytes or hours.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	// MaxInstructions bounds the compiled form of one regular expression, at 40 bytes each. A
	// counted repetition such as (…){1000} copies its operand.
	MaxInstructions = 10_000

	// maxAlternatives bounds the alternatives of a glob pattern: the matcher tries each
	// combination of its {a,b} groups.
	maxAlternatives = 1000
)

// Regexp is a regular expression of bounded size.
type Regexp struct {
	*regexp.Regexp
	Instructions int // estimated, not more than MaxInstructions
}

// Compile compiles a regular expression in the syntax of RE2. The error of an invalid one is a
// *syntax.Error.
func Compile(text string) (Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return Regexp{}, err
	}

	size := instructions(tree)
	if size > MaxInstructions {
		return Regexp{}, &syntax.Error{Code: syntax.ErrLarge, Expr: fmt.Sprintf("%.100s", text)}
	}

	form, err := regexp.Compile(text)

	return Regexp{form, size}, err
}

// instructions estimates the size of the compiled form; saturated.
func instructions(re *syntax.Regexp) int {
	size := 2
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}

	for _, sub := range re.Sub {
		size = min(size+instructions(sub), MaxInstructions+1)
	}

	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}

	return min(size, MaxInstructions+1)
}

// ValidGlob reports whether a glob pattern is well-formed and its {a,b} groups have no more
// than 1,000 combinations.
func ValidGlob(text string) bool {
	return doublestar.ValidatePattern(text) && combinations(text) <= maxAlternatives
}

// combinations returns an upper bound of the alternatives of a pattern, saturated: the product
// over groups of the number of their alternatives. Nested groups count as if they were not
// nested.
func combinations(text string) int {
	product := 1

	var open []int // alternatives of the groups that are open

	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if len(open) > 0 {
				open[len(open)-1]++
			}
		case '}':
			if len(open) > 0 {
				product = min(product*open[len(open)-1], maxAlternatives+1)
				open = open[:len(open)-1]
			}
		}
	}

	return product
}

// Match reports whether a glob pattern matches a name. A pattern that ValidGlob rejects does
// not match any name.
func Match(glob, name string) bool {
	if strings.Contains(glob, "{") && !ValidGlob(glob) {
		return false
	}

	matches, _ := doublestar.Match(glob, name)

	return matches
}
