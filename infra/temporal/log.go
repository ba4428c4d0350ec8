package temporal

import (
	"context"
	"log/slog"
	"strings"
)

// quiet lowers the SDK's reports of things that are ordinary here.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if ordinary(r) {
		if !q.Enabled(ctx, slog.LevelDebug) {
			return nil
		}

		r.Level = slog.LevelDebug
	}

	return q.Handler.Handle(ctx, r)
}

// ordinary are activities that are tried again or were cancelled, pollers that end with
// the client, and steps of a run that the server wants again because a signal came in
// while they were made.
func ordinary(r slog.Record) bool {
	for _, message := range []string{"Activity error", "LocalActivity", "Failed to poll for task", "Started Worker", "Stopped Worker"} {
		if strings.HasPrefix(r.Message, message) {
			return true
		}
	}

	var again bool

	r.Attrs(func(a slog.Attr) bool {
		again = a.Key == "Error" && a.Value.String() == "UnhandledCommand"
		return !again
	})

	return again
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
