package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"go.temporal.io/server/common/log/tag"
)

// temporalLogger passes the server's warnings and errors to slog. It drops lower levels, and
// everything after it was silenced, because every call that is cancelled during shutdown is
// logged as an error.
type temporalLogger struct {
	to     *slog.Logger
	ready  atomic.Bool // the server is running: errors are logged
	silent atomic.Bool
	quiet  chan struct{} // closed when silenced

	once  sync.Once
	err   error
	fatal chan struct{} // closed at the first fatal error
}

func newTemporalLogger(to *slog.Logger) *temporalLogger {
	return &temporalLogger{to: to.With("engine", "temporal"), quiet: make(chan struct{}), fatal: make(chan struct{})}
}

// silence must be called once, before the server stops.
func (l *temporalLogger) silence() {
	if !l.silent.Swap(true) {
		close(l.quiet)
	}
}

func (l *temporalLogger) log(level slog.Level, msg string, tags []tag.Tag) {
	// During startup the server logs errors that resolve themselves. An error that persists fails
	// the start with its text.
	if !l.ready.Load() {
		level = slog.LevelDebug
	}

	if l.silent.Load() || !l.to.Enabled(context.Background(), level) {
		return
	}

	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}

	l.to.LogAttrs(context.Background(), level, msg, attrs...)
}

// Debug drops the message.
func (l *temporalLogger) Debug(string, ...tag.Tag) {}

// Info drops the message.
func (l *temporalLogger) Info(string, ...tag.Tag) {}

// Warn logs the message, except for the warning that the HTTP API is disabled.
func (l *temporalLogger) Warn(msg string, tags ...tag.Tag) {
	if !strings.HasPrefix(msg, "HTTP API port has not been set") {
		l.log(slog.LevelWarn, msg, tags)
	}
}

// Error logs the message.
func (l *temporalLogger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic logs the message as an error: it would panic in development builds only.
func (l *temporalLogger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic logs the message and panics, as the server expects.
func (l *temporalLogger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal logs the message and reports the server as dead. It does not exit the process: other
// engines must be stopped in order.
func (l *temporalLogger) Fatal(msg string, tags ...tag.Tag) {
	l.ready.Store(true)
	l.log(slog.LevelError, msg, tags)
	l.once.Do(func() {
		l.err = errors.New(msg)

		for _, t := range tags {
			if t.Key() == "error" {
				l.err = fmt.Errorf("%s: %v", msg, t.Value())
			}
		}

		close(l.fatal)
	})
}

// fatalError returns the first fatal error; valid once fatal is closed.
func (l *temporalLogger) fatalError() error { return l.err }

// sdkLogger drops the messages of the client that prepares the namespace.
type sdkLogger struct{}

func (sdkLogger) Debug(string, ...any) {}
func (sdkLogger) Info(string, ...any)  {}
func (sdkLogger) Warn(string, ...any)  {}
func (sdkLogger) Error(string, ...any) {}
