package events

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/testkit/natskit"
)

// engine is a NATS server with event logs on it.
type engine struct {
	*natskit.Server
	t testing.TB
}

func newEngine(t testing.TB) *engine { return &engine{natskit.New(t), t} }

func (e *engine) open(cfg Config) *Log {
	l, err := Open(e.t.Context(), e.Connect(), cfg)
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
		SessionID: domain.SessionID(session), Name: domain.EventTurnPatch, ChatID: "c1", At: time.Now(),
		Data: []byte(fmt.Sprintf(`{"turn_id":"t1","patch_type":"add_content","n":%d}`, n)),
	}
}

func edgeEvent(session, name, turn string) domain.Event {
	return domain.Event{
		ID: domain.NewID(), SessionID: domain.SessionID(session), Name: name, At: time.Now(),
		Data: []byte(fmt.Sprintf(`{"turn_id":%q}`, turn)),
	}
}

func publish(t testing.TB, l *Log, e domain.Event) uint64 {
	t.Helper()

	seq, err := l.Publish(context.Background(), e)
	require.NoError(t, err)

	return seq
}

func readAll(t testing.TB, l *Log, session domain.SessionID, after, upTo uint64) []domain.LoggedEvent {
	t.Helper()

	var got []domain.LoggedEvent

	require.NoError(t, l.Read(context.Background(), session, after, upTo, func(e domain.LoggedEvent) error {
		got = append(got, e)
		return nil
	}))

	return got
}
