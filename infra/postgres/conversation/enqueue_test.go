package conversation_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
)

// rounds counts the round trips to the database: a batch is one.
type rounds struct {
	count atomic.Int32
}

func (r *rounds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.count.Add(1)
	return ctx
}

func (r *rounds) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *rounds) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.count.Add(1)
	return ctx
}

func (r *rounds) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *rounds) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A message is read for and written in one batch each, between BEGIN and COMMIT.
func TestStore_Enqueue_roundTrips(t *testing.T) {
	t.Parallel()

	seen := &rounds{}
	db := testkit.OpenDatabase(t, postgres.Options{Tracer: seen})
	store := postgres.NewStore(db, &pgtest.Log{}, slog.New(slog.DiscardHandler))
	session, err := db.CreateSession(t.Context(), pgtest.User(t, db, "owner", false).ID, domain.NewSession{})
	require.NoError(t, err)

	send := domain.Send{
		SessionID: session.ID, ClientMessageID: "m1", Message: words("hello"), Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	}

	before := seen.count.Load()
	out, err := store.Enqueue(t.Context(), session.OwnerID, send)
	require.NoError(t, err)
	require.Equal(t, domain.DeliverRun, out.Ack.DeliveryApplied)
	require.EqualValues(t, 4, seen.count.Load()-before, "BEGIN, reads, writes, COMMIT")

	before = seen.count.Load()
	again, err := store.Enqueue(t.Context(), session.OwnerID, send)
	require.NoError(t, err)
	require.True(t, again.Ack.Duplicate)
	require.Equal(t, out.Ack.ChatID, again.Ack.ChatID)
	require.EqualValues(t, 3, seen.count.Load()-before, "nothing is written")

	_, err = store.Enqueue(t.Context(), "another user", send)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound), "%v", err)
}
