package inbox

import (
	"context"
	"log/slog"
	"time"
)

// Sweeps are works of mending that may take long, and that must not keep the
// Janitor from waking sessions.
type Sweeps struct {
	Every  time.Duration
	Logger *slog.Logger
	Work   []Sweep
}

// Sweep is one of them. It finds its work in the records and may be broken off
// at any point.
type Sweep struct {
	Name string
	Run  func(ctx context.Context) error
}

// Run sweeps until ctx ends.
func (s *Sweeps) Run(ctx context.Context) {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, w := range s.Work {
			if err := w.Run(ctx); err != nil && ctx.Err() == nil {
				s.Logger.Warn("sweep could not finish", "part", w.Name, "error", err)
			}
		}
	}
}
