package schema

import (
	"errors"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"everloop/domain/pattern"
)

// Bounds of the patterns of a schema, and of its names that are patterns.
const (
	maxPatternInstructions = 50_000      // of all patterns together, at 40 bytes each
	maxPatternWork         = 200_000_000 // instructions times bytes that are matched with one schema
)

// patterns compiles the regular expressions of one schema, and counts their cost. The library
// also compiles the texts of format "regex" in an answer with it.
type patterns struct {
	instructions, work atomic.Int64
}

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	form, err := pattern.Compile(text)
	if err != nil {
		return nil, err
	}

	if p.instructions.Add(int64(form.Instructions)) > maxPatternInstructions {
		return nil, errors.New("the patterns of the schema are too large together")
	}

	return counted{form, p}, nil
}

func (p *patterns) exhausted() bool { return p.work.Load() > maxPatternWork }

// counted is a pattern that stops matching once the work of its schema is exhausted.
type counted struct {
	pattern.Regexp
	of *patterns
}

// MatchString implements jsonschema.Regexp.
func (c counted) MatchString(text string) bool {
	c.of.work.Add(int64(c.Instructions) * int64(len(text)+1))

	return !c.of.exhausted() && c.Regexp.MatchString(text)
}
