package session

import (
	"context"

	"everloop/domain"
)

// Messages reads the turns of a session's active branch in their order, one by
// one. After is a sequence, nil for the beginning; a limit of 0 is none. An error
// of yield ends the reading and is returned.
type Messages interface {
	Messages(ctx context.Context, sessionID domain.SessionID, after *int64, limit int, yield func(domain.Turn) error) error
	// LastSequence is the sequence of the last turn, -1 where there is none: sequences are dense from 0.
	LastSequence(ctx context.Context, sessionID domain.SessionID) (int64, error)
}

// Tasks are the background tasks of a session; the caller is authorised. An unknown
// task is task_not_found.
type Tasks interface {
	List(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error)
	// Output reads the last lines, at most tail.
	Output(ctx context.Context, sessionID domain.SessionID, taskID string, tail int) (domain.TaskOutput, error)
	// Stop asks the task to end; stopping one that has ended changes nothing.
	Stop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error)
}

// Streams opens a subscription to a session's events: after says from where,
// nil only what happens from now on. The caller is authorised. It is a function,
// so that the wiring can give the realtime hub's own type for a Subscription.
type Streams func(ctx context.Context, sessionID domain.SessionID, after *uint64) (Subscription, error)

// Subscription is one client's place in a session's events. Next blocks until
// there is one. Its error ends the subscription: the context's, or one that says
// to subscribe again after Position.
type Subscription interface {
	Next(ctx context.Context) (domain.LoggedEvent, error)
	Position() uint64
	Close()
}
