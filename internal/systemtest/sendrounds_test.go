package systemtest

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/api/httpx"
	"everloop/domain"
	"everloop/internal/testkit"
)

// requestRounds counts the round trips to PostgreSQL of each REST request: a batch is one.
type requestRounds struct {
	mu    sync.Mutex
	count map[string]int // by route
}

func (r *requestRounds) add(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.count[httpx.RequestOf(ctx).Route]++

	return ctx
}

func (r *requestRounds) of(route string) int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.count[route]
}

func (r *requestRounds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return r.add(ctx)
}

func (r *requestRounds) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *requestRounds) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return r.add(ctx)
}

func (r *requestRounds) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *requestRounds) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A message costs one read of its session with the check of its owner, and the transaction
// of the inbox: BEGIN, its reads, its writes, COMMIT.
func TestSendChat_roundTrips(t *testing.T) {
	t.Parallel()

	const route = "/api/sessions/{session_id}/chat"

	seen := &requestRounds{count: map[string]int{}}
	s := newStackOn(t, func(mock http.Handler) http.Handler { return mock }, testkit.Events(t), seen, nil)
	url, key := s.edge(nil)
	session := s.session()

	post := func(message string) (rounds int, chatID domain.ChatID) {
		before := seen.of(route)
		chatID = s.post(url, key, session, message, http.Header{})

		return seen.of(route) - before, chatID
	}

	_, chat := post(script(obj{"steps": []obj{{"text": "the credentials are cached now"}}}))
	s.awaitEnd(session, chat)

	rounds, chat := post(script(obj{"steps": []obj{{"calls": []obj{bash("sleep 600")}}}}))
	require.Equal(t, 5, rounds, "to a session at rest")
	s.await(session, domain.EventChatStart, func(data map[string]any) bool { return data["chat_id"] == string(chat) })

	rounds, _ = post("queued")
	require.Equal(t, 7, rounds, "to a busy session: two more, for the event of its queue")
	s.stop(session)
}
