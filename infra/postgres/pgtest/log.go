package pgtest

import (
	"context"
	"slices"
	"sync"

	"everloop/domain"
)

// Log is an event log that keeps in memory what is published.
type Log struct {
	mu     sync.Mutex
	events []domain.Event
}

// Publish keeps the event.
func (l *Log) Publish(_ context.Context, e domain.Event) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.events = append(l.events, e)

	return uint64(len(l.events)), nil
}

// Repeat is Publish.
func (l *Log) Repeat(ctx context.Context, e domain.Event, _ uint64) (uint64, error) {
	return l.Publish(ctx, e)
}

// Lost returns nothing.
func (l *Log) Lost(context.Context, []uint64) ([]uint64, error) { return nil, nil }

// Events returns what was published so far.
func (l *Log) Events() []domain.Event {
	l.mu.Lock()
	defer l.mu.Unlock()

	return slices.Clone(l.events)
}

// Names returns the names of the events that were published so far.
func (l *Log) Names() (names []string) {
	for _, e := range l.Events() {
		names = append(names, e.Name)
	}

	return names
}
