package tools

import (
	"context"
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

// WithFiles returns the Run of a tool that reads or writes the workspace: run receives the decoded
// arguments and the files, which are closed when it returns.
func WithFiles[T any](workspaces Workspaces, run func(context.Context, *Call, T, Files) (Result, error)) func(
	context.Context, *Call) (Result, error) {
	return func(ctx context.Context, c *Call) (Result, error) {
		in, err := Decode[T](c.Arguments)
		if err != nil {
			return Result{}, err
		}

		files, err := workspaces.Open(ctx, c.Session)
		if err != nil {
			return ToModel(err)
		}
		defer files.Close()

		return run(ctx, c, in, files)
	}
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
