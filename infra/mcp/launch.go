package mcp

import (
	"context"
	"io"
	"sync"

	"everloop/activities/tools"
	"everloop/domain"
)

// Launcher starts processes in the sandboxes of sessions.
type Launcher interface {
	// Launch starts a program; ctx bounds its whole life.
	Launch(ctx context.Context, program Program) (Process, error)
}

// Program is a tool server to run in a sandbox.
type Program struct {
	// Session has its workspace, in which and as whose user the server runs. Nil
	// runs it privately: without any workspace, in an empty directory and as a user
	// that nothing else has.
	Session        *tools.SessionView
	SessionID      domain.SessionID // whose chats use it, and whose rules its network follows
	Argv           []string
	Env            map[string]string
	Stdout, Stderr io.Writer
}

// Process is a running program with everything that it started.
type Process interface {
	Stdin() io.WriteCloser
	// Kill ends all of it; it is safe to call again.
	Kill()
	// Done is closed when nothing of it is alive.
	Done() <-chan struct{}
	// Ending says in words how it ended, after Done.
	Ending() string
}

// maxSaid is how much of what a server writes for people is kept, in bytes.
const maxSaid = 8 << 10

// said keeps the end of what a server writes to its standard error.
type said struct {
	mu   sync.Mutex
	tail []byte
}

// Write implements io.Writer and never fails.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.tail = append(s.tail, p[max(0, len(p)-maxSaid):]...)
	if len(s.tail) > 2*maxSaid {
		s.tail = append(s.tail[:0:0], s.tail[len(s.tail)-maxSaid:]...)
	}

	return len(p), nil
}

// last returns the last words, on one line.
func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	const most = 400

	return cleanText(oneLine(string(s.tail[max(0, len(s.tail)-most):])), most)
}
