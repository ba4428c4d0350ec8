package temporal

import (
	"context"
	"log/slog"
	"strings"
)

// quiet lowers the SDK's reports of things that are ordinary here: activities
// that are tried again or were cancelled, and pollers that end with the client.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	for _, ordinary := range []string{"Activity error", "LocalActivity", "Failed to poll for task", "Started Worker", "Stopped Worker"} {
		if strings.HasPrefix(r.Message, ordinary) {
			if !q.Enabled(ctx, slog.LevelDebug) {
				return nil
			}

			r.Level = slog.LevelDebug
		}
	}

	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
