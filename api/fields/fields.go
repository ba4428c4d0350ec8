package fields

import (
	"time"

	"everloop/api/httpx"
	"everloop/domain"
	"everloop/domain/board"
)

// CleanTexts is domain.CleanText for each text.
func CleanTexts(texts []string) []string {
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = domain.CleanText(text)
	}

	return clean
}

// Texts returns words of a closed set as plain texts.
func Texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}

	return out
}

// Given returns a time, or nil for the zero time.
func Given(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}

	return &at
}

// Text returns a new value of a text that can be empty.
func Text(given httpx.Nullable[string]) board.Change[string] {
	return board.Change[string]{Set: given.Present, Value: Cleaned(OrNil(given.Value))}
}

// Set takes what a change holds; without it, the old value stays.
func Set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Cleaned is domain.CleanText for a text that may be left out.
func Cleaned(text *string) *string {
	if text == nil {
		return nil
	}

	clean := domain.CleanText(*text)

	return &clean
}

// Items is an answer with all items of a kind, or a page of them.
type Items[T any] struct {
	Items []T `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int `json:"total" doc:"Total number of entries." example:"1"`
}

// DeletedBody is the answer to a deletion.
type DeletedBody struct {
	Deleted bool `json:"deleted" doc:"Whether it was deleted."`
}

// OkBody is the answer of an operation that has nothing else to say.
type OkBody struct {
	OK bool `json:"ok" doc:"Whether it succeeded."`
}

// List is an answer with all items of a kind.
type List[T any] struct {
	Items []T `json:"items" doc:"The entries of this page."`
	Total int `json:"total" doc:"Total number of entries." example:"1"`
}

// ListOf returns a list that holds all there are.
func ListOf[T any](items []T) List[T] { return List[T]{OrEmpty(items), len(items)} }

// OrEmpty keeps a missing list from becoming null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}

// Value gives what an optional field holds, or its zero.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}

	return v
}

// OrNil takes an empty name as none.
func OrNil[T ~string](p *T) *T {
	if p == nil || *p == "" {
		return nil
	}

	return p
}
