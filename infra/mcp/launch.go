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
	// Launch starts a program, which is killed when ctx is cancelled.
	Launch(ctx context.Context, program Program) (Process, error)
}

// Program is a tool server to run in a sandbox.
type Program struct {
	// Session provides the workspace and the user of the server. Nil: the server runs privately,
	// without a workspace, in an empty directory and as a user without other processes.
	Session        *tools.SessionView
	SessionID      domain.SessionID // owner of the network policy
	Argv           []string
	Env            map[string]string
	Stdout, Stderr io.Writer
}

// Process is a running program including its child processes.
type Process interface {
	Stdin() io.WriteCloser
	// Kill kills all processes; it is idempotent.
	Kill()
	// Done is closed when all processes have ended.
	Done() <-chan struct{}
	// Ending describes how it ended, after Done.
	Ending() string
}

// maxSaid is the maximum length of the buffered standard error, in bytes.
const maxSaid = 8 << 10

// said buffers the last bytes of a server's standard error.
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

// last returns the end of the output, on one line.
func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	const most = 400

	return cleanText(oneLine(string(s.tail[max(0, len(s.tail)-most):])), most)
}
