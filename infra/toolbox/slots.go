//go:build linux

package toolbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/limit"
)

// CodeTooManyCommands is the code of a command that found no slot.
const CodeTooManyCommands = "too_many_commands"

// Slots bound the commands that run at once on this worker for one session and for
// one user: those of tools, background tasks and the session's tool servers.
type Slots struct {
	PerSession, PerUser int           // 0: no bound
	Wait                time.Duration // how long a command waits for a slot

	running limit.Keyed[string]
}

// take waits for a slot of the session and its user. The release must be called once.
func (s *Slots) take(ctx context.Context, session tools.SessionView) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}

	waiting, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()

	bounds := []limit.Bound[string]{{Key: sessionKey + string(session.ID), Max: s.PerSession}}
	if session.OwnerID != "" {
		bounds = append(bounds, limit.Bound[string]{Key: userKey + session.OwnerID, Max: s.PerUser})
	}

	release, err = s.running.Acquire(waiting, bounds...)
	if full, ok := errors.AsType[*limit.FullError[string]](err); ok {
		holder, _, _ := strings.Cut(full.Key, " ")
		return nil, tooMany(holder, s.Wait)
	}

	return release, err
}

// Prefixes of the keys: what holds the slots, for the error.
const (
	sessionKey = "session "
	userKey    = "user "
)

func tooMany(holder string, wait time.Duration) error {
	return &domain.Error{Kind: domain.RateLimited, Code: CodeTooManyCommands, Message: fmt.Sprintf(
		"the command did not run: as many commands of this %s run as may run at once, and none ended within %s; wait for some, or run "+
			"fewer in parallel",
		holder, wait)}
}
