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
	ExitQuestion    = 3   // the agent waits for an answer, and no user is there to give it
	ExitTrouble     = 4   // wrong use, no service, wrong key, or the service refused
	ExitLeft        = 130 // left while the chat goes on
)

// Fault is an error with its exit code and a message for the user.
type Fault struct {
	Code    int
	Message string
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

var (
	errLeft     = &Fault{Code: ExitLeft, Message: "left: what runs goes on without you"}
	errQuestion = &Fault{Code: ExitQuestion, Message: "the agent waits for an answer"}
)

func exitCode(err error) int {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}

	if errors.Is(err, context.Canceled) {
		return ExitLeft
	}

	return ExitTrouble
}
