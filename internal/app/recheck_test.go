package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
	"everloop/internal/testkit/natskit"
	"everloop/realtime"
	"everloop/service/accounts"
)

// statements counts what is sent to PostgreSQL.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// socket is a connection that takes every event.
type socket struct {
	caller domain.Caller
	id     string
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *socket) ID() string                        { return s.id }
func (s *socket) Identity() any                     { return s.caller }
func (s *socket) Emit(string, json.RawMessage) bool { return true }
func (s *socket) OnDrained(func())                  {}
func (s *socket) Context() context.Context          { return s.ctx }
func (s *socket) Close()                            { s.cancel() }

// One statement checks the credentials of all connections, and another their subscriptions.
func TestProtocol_RightsChanged_statements(t *testing.T) {
	t.Parallel()

	const connections = 300

	sent := &statements{}
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 4, Tracer: sent})
	owner, other := pgtest.User(t, db, "owner", false), pgtest.User(t, db, "other", false)
	session, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET shared = true WHERE id = $1`, session.ID)
	require.NoError(t, err)

	log, err := events.Open(t.Context(), natskit.New(t).Connect(), events.Config{})
	require.NoError(t, err)

	hub := realtime.NewHub(realtime.HubConfig{Log: log, State: db})
	go func() { _ = hub.Run(t.Context()) }()

	a := access{db: db, auth: auth.New(accounts.New(db.DB), auth.Options{})}
	t.Cleanup(a.auth.Close)

	protocol := realtime.NewProtocol(realtime.ProtocolConfig{Hub: hub, Sessions: a})

	sockets := make([]*socket, connections)
	for i := range sockets {
		user := owner
		if i%2 == 1 {
			user = other
		}

		key, _, hash := auth.NewKey(user.ID, "k")
		_, err := accounts.New(db.DB).CreateKey(t.Context(), key, hash[:])
		require.NoError(t, err)

		s := &socket{caller: domain.Caller{User: user, KeyID: key.ID}, id: fmt.Sprint(i)}
		s.ctx, s.cancel = context.WithCancel(t.Context())
		protocol.Connected(s)
		protocol.Event(s, realtime.SessionSubscribe, []byte(`{"session_id":"`+string(session.ID)+`"}`), func(any) {})
		sockets[i] = s
	}

	require.Equal(t, connections, hub.Stats().Subscriptions)

	sent.n.Store(0)
	protocol.RightsChanged(t.Context(), domain.RightsChange{})
	require.LessOrEqual(t, sent.n.Load(), int64(2))
	require.Equal(t, connections, hub.Stats().Subscriptions)

	// A revoked key closes its connection alone, and the end of sharing ends the subscriptions
	// of all but the owner.
	require.NoError(t, accounts.New(db.DB).RevokeKey(t.Context(), owner.ID, sockets[0].caller.KeyID))
	_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET shared = false WHERE id = $1`, session.ID)
	require.NoError(t, err)
	protocol.RightsChanged(t.Context(), domain.RightsChange{})

	require.Error(t, sockets[0].ctx.Err())
	require.NoError(t, sockets[2].ctx.Err())
	protocol.Disconnected(sockets[0])
	require.Equal(t, connections/2-1, hub.Stats().Subscriptions)
}
