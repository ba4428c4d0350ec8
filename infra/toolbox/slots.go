//go:build linux

package toolbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
)

// CodeTooManyCommands is the code of a command that found no slot.
const CodeTooManyCommands = "too_many_commands"

// Slots bound the commands that run at once on this worker for one session and for
// one user: those of tools, background tasks and the session's tool servers.
type Slots struct {
	PerSession, PerUser int           // 0: no bound
	Wait                time.Duration // how long a command waits for a slot

	mu    sync.Mutex
	taken map[string]int // by session and by user
	freed chan struct{}  // closed, and made again, when a slot is released
}

// take waits for a slot of the session and its user. The release must be called once.
func (s *Slots) take(ctx context.Context, session tools.SessionView) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}

	timer := time.NewTimer(s.Wait)
	defer timer.Stop()

	for {
		freed, holder := s.try(session)
		if holder == "" {
			return sync.OnceFunc(func() { s.release(session) }), nil
		}

		select {
		case <-freed:
		case <-timer.C:
			return nil, tooMany(holder, s.Wait)
		case <-ctx.Done():
			return nil, tooMany(holder, s.Wait)
		}
	}
}

func tooMany(holder string, wait time.Duration) error {
	return &domain.Error{Kind: domain.RateLimited, Code: CodeTooManyCommands, Message: fmt.Sprintf(
		"the command did not run: as many commands of this %s run as may run at once, and none ended within %s; wait for some, or run "+
			"fewer in parallel",
		holder, wait)}
}

// try takes a slot, or returns whose are all taken and when to look again.
func (s *Slots) try(session tools.SessionView) (freed <-chan struct{}, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.freed == nil {
		s.freed, s.taken = make(chan struct{}), map[string]int{}
	}

	byUser := session.OwnerID != ""
	switch {
	case s.PerSession > 0 && s.taken[sessionKey(session)] >= s.PerSession:
		return s.freed, "session"
	case byUser && s.PerUser > 0 && s.taken[userKey(session)] >= s.PerUser:
		return s.freed, "user"
	}

	s.taken[sessionKey(session)]++
	if byUser {
		s.taken[userKey(session)]++
	}

	return nil, ""
}

func (s *Slots) release(session tools.SessionView) {
	s.mu.Lock()
	defer s.mu.Unlock()

	keys := []string{sessionKey(session)}
	if session.OwnerID != "" {
		keys = append(keys, userKey(session))
	}

	for _, key := range keys {
		if s.taken[key]--; s.taken[key] == 0 {
			delete(s.taken, key)
		}
	}

	close(s.freed)
	s.freed = make(chan struct{})
}

func sessionKey(s tools.SessionView) string {
	return "session " + string(s.ID)
}

func userKey(s tools.SessionView) string { return "user " + s.OwnerID }
