package tools

import (
	"fmt"
	"strings"

	"everloop/domain"
)

// ToModel turns what the file system refused into a result, and passes on what
// is not the model's to know.
func ToModel(err error) (Result, error) {
	if words, ok := Refusal(err); ok {
		return *Failed("%s", Sentence(words)), nil
	}

	return *Failed("The files of the workspace cannot be reached at the moment."), err
}

// Sentence gives a message the form in which the model reads them all.
func Sentence(words string) string {
	words = strings.TrimSpace(words)
	if words == "" {
		return "It was refused."
	}

	if !strings.HasSuffix(words, ".") {
		words += "."
	}

	return words
}

// Refusal gives the words of an error that the model can do something about,
// and false for one that is not the model's.
func Refusal(err error) (string, bool) {
	e := domain.AsError(err)
	switch e.Kind {
	case domain.Internal, domain.Unavailable:
		return "", false
	default:
		return e.Message, true
	}
}

// Failed makes the result of a call that did not do what was asked.
func Failed(format string, args ...any) *Result {
	return &Result{Output: fmt.Sprintf(format, args...), IsError: true}
}

// Quote shows a word of the model's in a message, shortened.
func Quote(word string) string { return fmt.Sprintf("%q", Cut(Clean(word), 100)) }

// Refuse makes an error whose words are for the model.
func Refuse(format string, args ...any) error {
	return domain.Newf(domain.Conflict, "refused", format, args...)
}
