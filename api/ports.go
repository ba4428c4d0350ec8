package api

import (
	"context"

	"everloop/api/httpx"
	"everloop/domain"
)

// Store is the records that the areas of this interface read and write.
// infra/postgres implements it.
type Store interface {
	sessionStore
	keyStore
	userStore
	taskStore
	fileStore
	httpx.IdempotencyStore
}

type sessionStore interface {
	CreateSession(ctx context.Context, ownerID string, in domain.NewSession) (domain.Session, error)
	Sessions(ctx context.Context, q domain.SessionQuery) (domain.SessionPage, error)
	// ReadSession reads a session that the user may see.
	ReadSession(ctx context.Context, caller domain.User, id string) (domain.Session, domain.ViewerRole, error)
	// OwnSession reads a session that the user may change.
	OwnSession(ctx context.Context, caller domain.User, id string) (domain.Session, error)
	RenameSession(ctx context.Context, caller domain.User, id, intent string) (domain.Session, error)
	// SetSessionSetup changes what the setup names and leaves the rest.
	SetSessionSetup(ctx context.Context, caller domain.User, id string, setup domain.SessionSetup) (domain.Session, error)
	SetSessionMode(ctx context.Context, caller domain.User, id string, mode domain.Mode) (domain.Session, error)
	SetSessionEnv(ctx context.Context, caller domain.User, id string, env map[string]string) (domain.Session, error)
	SetSessionPinned(ctx context.Context, caller domain.User, id string, pinned bool) (domain.Session, error)
	SetSessionShared(ctx context.Context, caller domain.User, id string, shared bool) (domain.Session, error)
	SetSessionMemory(ctx context.Context, caller domain.User, id string, enabled bool) (domain.Session, error)
}

type keyStore interface {
	CreateKey(ctx context.Context, key domain.APIKey, hash []byte) (domain.APIKey, error)
	Keys(ctx context.Context, userID string) ([]domain.APIKey, error)
	Key(ctx context.Context, userID, id string) (domain.APIKey, error)
	RenameKey(ctx context.Context, userID, id, name string) (domain.APIKey, error)
	RevokeKey(ctx context.Context, userID, id string) error
}

type userStore interface {
	CreateUser(ctx context.Context, user domain.User, key domain.APIKey, hash []byte) (domain.User, domain.APIKey, error)
	Users(ctx context.Context) ([]domain.User, error)
	DeleteUser(ctx context.Context, id string) error
}

type taskStore interface {
	// SessionTasks lists the agent's own task list; the caller may read the session.
	SessionTasks(ctx context.Context, sessionID string) ([]domain.SessionTask, error)
}

type fileStore interface {
	// FileChanged emits an event for a file that a user changed.
	FileChanged(ctx context.Context, sessionID string, change domain.FileChange) error
}

// Messages reads the turns of a session's active branch in their order, one by
// one. After is a sequence, nil for the beginning; a limit of 0 is none. An error
// of yield ends the reading and is returned.
type Messages interface {
	Messages(ctx context.Context, sessionID string, after *int64, limit int, yield func(domain.Turn) error) error
}

// Tasks are the background tasks of a session; the caller is authorised. An unknown
// task is task_not_found.
type Tasks interface {
	List(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error)
	// Output reads the last lines, at most tail.
	Output(ctx context.Context, sessionID, taskID string, tail int) (domain.TaskOutput, error)
	// Stop asks the task to end; stopping one that has ended changes nothing.
	Stop(ctx context.Context, sessionID, taskID string) (domain.BackgroundTask, error)
}

// Models lists what the model gateway can serve.
type Models interface {
	Models(ctx context.Context) ([]domain.Model, error)
}

// Deleter ends whatever runs in a session and removes it.
type Deleter interface {
	DeleteSession(ctx context.Context, sessionID string) error
}

// Degraded is an error of a dependency that still serves, and soon may not.
type Degraded struct{ Err error }

// Error implements error.
func (d Degraded) Error() string { return d.Err.Error() }

// Readiness checks the dependencies: by name, nil or what is wrong; Degraded for what
// does not keep the process from serving.
type Readiness func(ctx context.Context) map[string]error

// Streams opens a subscription to a session's events: after says from where,
// nil only what happens from now on. The caller is authorised. It is a function,
// so that the wiring can give the realtime hub's own type for a Subscription.
type Streams func(ctx context.Context, sessionID string, after *uint64) (Subscription, error)

// Subscription is one client's place in a session's events. Next blocks until
// there is one. Its error ends the subscription: the context's, or one that says
// to subscribe again after Position.
type Subscription interface {
	Next(ctx context.Context) (domain.LoggedEvent, error)
	Position() uint64
	Close()
}

// Chats takes what clients say to the agent. The caller owns the session.
type Chats interface {
	// Send returns once the message is durable.
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
	// Answer resolves an open question, or says that another call did.
	Answer(ctx context.Context, caller domain.Caller, sessionID string, answer domain.Answer) (domain.AnswerAck, error)
	// Stop interrupts the running chat, and ends what is queued when andQueue is set.
	Stop(ctx context.Context, caller domain.Caller, sessionID string, andQueue bool) (stopped bool, err error)
}
