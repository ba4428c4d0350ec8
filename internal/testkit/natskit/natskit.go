// Package natskit runs a NATS server with JetStream inside a test's process, for tests that stop
// and start it. It is separate from testkit, whose test binaries need not link a server: most
// tests use the shared one (testkit.Events).
package natskit

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Server is a NATS server that can be stopped and started on the same directory while its clients
// reconnect.
type Server struct {
	Dir string // of its streams
	t   testing.TB

	mu      sync.Mutex
	running *server.Server // nil: stopped
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, Dir: t.TempDir()}
	s.Start()
	t.Cleanup(s.Stop)

	return s
}

// Start starts the server after Stop.
func (s *Server) Start() {
	s.t.Helper()
	started, err := server.NewServer(&server.Options{JetStream: true, StoreDir: s.Dir, DontListen: true, NoSigs: true, NoLog: true})
	require.NoError(s.t, err)
	started.Start()
	require.True(s.t, started.ReadyForConnections(time.Minute))

	s.mu.Lock()
	defer s.mu.Unlock()

	s.running = started
}

// Stop stops the server. Its stored data stays.
func (s *Server) Stop() {
	s.mu.Lock()
	stopped := s.running
	s.running = nil
	s.mu.Unlock()

	if stopped != nil {
		stopped.Shutdown()
		stopped.WaitForShutdown()
	}
}

// Connect returns a connection that survives stops of the server.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectJitter(0, 0), nats.Timeout(time.Minute)) // for busy machines
	require.NoError(s.t, err)
	s.t.Cleanup(nc.Close)

	return nc
}

// InProcessConn implements nats.InProcessConnProvider: it connects to the currently running
// server.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.running == nil {
		return nil, errors.New("the server is stopped")
	}

	return s.running.InProcessConn()
}
