package temporal

import (
	"context"
	"log/slog"
	"strings"
)

// quiet lowers the level of the SDK's messages about ordinary events.
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

// ordinary reports whether a message is about a retried or cancelled activity, a poller that ends
// with the client, or a workflow task that is repeated because a signal arrived during it.
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
