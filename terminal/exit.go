package terminal

import (
	"context"
	"errors"
)

// Exit codes of `everloop chat`.
const (
	ExitCompleted   = 0   // the chat completed
	ExitFailed      = 1   // the chat failed
	ExitInterrupted = 2   // the chat was stopped
	ExitQuestion    = 3   // the agent waits for an answer, and there is no user
	ExitTrouble     = 4   // usage error, no service, wrong key, or the service rejected the request
	ExitLeft        = 130 // exited while the chat continues
)

// Fault is an error with an exit code and a message for the user.
type Fault struct {
	Code    int
	Message string
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

var (
	errLeft      = &Fault{Code: ExitLeft, Message: "exited: running chats continue"}
	errQuestion  = &Fault{Code: ExitQuestion, Message: "the agent waits for an answer"}
	errNoSession = usageError("--continue: there is no session; start one without --continue")
)

func usageError(message string) *Fault { return &Fault{Code: ExitTrouble, Message: message} }

func exitCode(err error) int {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	if errors.Is(err, context.Canceled) {
		return ExitLeft
	}
	return ExitTrouble
}
