package events

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// engine is a NATS server in this process that can be stopped and started on
// the same directory while clients stay connected to its name.
type engine struct {
	t   testing.TB
	dir string
	mu  sync.Mutex
	srv *server.Server
}

func newEngine(t testing.TB) *engine {
	e := &engine{t: t, dir: t.TempDir()}
	e.start()
	t.Cleanup(e.stop)
	return e
}

func (e *engine) start() {
	srv, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: e.dir, DontListen: true, NoSigs: true, NoLog: true,
	})
	require.NoError(e.t, err)
	srv.Start()
	require.True(e.t, srv.ReadyForConnections(time.Minute))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.srv = srv
}

func (e *engine) stop() {
	e.mu.Lock()
	srv := e.srv
	e.srv = nil
	e.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// InProcessConn implements nats.InProcessConnProvider over restarts.
func (e *engine) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv == nil {
		return nil, errors.New("the server is down")
	}
	return e.srv.InProcessConn()
}

func (e *engine) connect() *nats.Conn {
	nc, err := nats.Connect("", nats.InProcessServer(e), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectJitter(0, 0))
	require.NoError(e.t, err)
	e.t.Cleanup(nc.Close)
	return nc
}

func (e *engine) open(cfg Config) *Log {
	l, err := Open(e.t.Context(), e.connect(), cfg)
	require.NoError(e.t, err)
	return l
}

// blobs is an object store in memory.
type blobs struct {
	mu   sync.Mutex
	data map[string][]byte
	err  error
}

func newBlobs() *blobs { return &blobs{data: map[string][]byte{}} }

func (b *blobs) Put(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data[key] = append([]byte(nil), data...)
	return b.err
}

func (b *blobs) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	data, ok := b.data[key]
	if !ok {
		return nil, domain.Newf(domain.NotFound, "object_not_found", "no object %s", key)
	}
	return data, nil
}

func patch(session string, n int) domain.Event {
	return domain.Event{
		SessionID: session, Name: domain.EventTurnPatch, ChatID: "c1", At: time.Now(),
		Data: []byte(fmt.Sprintf(`{"turn_id":"t1","patch_type":"add_content","n":%d}`, n)),
	}
}

func edgeEvent(session, name, turn string) domain.Event {
	return domain.Event{
		ID: domain.NewID(), SessionID: session, Name: name, At: time.Now(),
		Data: []byte(fmt.Sprintf(`{"turn_id":%q}`, turn)),
	}
}

func publish(t testing.TB, l *Log, e domain.Event) uint64 {
	t.Helper()
	seq, err := l.Publish(context.Background(), e)
	require.NoError(t, err)
	return seq
}

func readAll(t testing.TB, l *Log, session string, after, upTo uint64) []domain.LoggedEvent {
	t.Helper()
	var got []domain.LoggedEvent
	require.NoError(t, l.Read(context.Background(), session, after, upTo, func(e domain.LoggedEvent) error {
		got = append(got, e)
		return nil
	}))
	return got
}
