package dagruns_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/durable"
	"everloop/service/dagruns"
	"everloop/service/files"
	"everloop/service/production"
)

// engine is Temporal: unavailable while err is set, and otherwise ends what is cancelled.
type engine struct {
	db  *postgres.DB
	err error
}

func (*engine) Details(durable.Attributes) string { return "" }

func (e *engine) StartDAGRun(context.Context, string, string) error             { return e.err }
func (e *engine) ResumeDAGRun(context.Context, string, string) error            { return e.err }
func (e *engine) NotifyWaiter(context.Context, domain.ChatWaiter) (bool, error) { return true, e.err }
func (e *engine) AwaitDAGRun(context.Context, string, string) error             { return e.err }

func (e *engine) CancelDAGRun(ctx context.Context, _, runID string) (bool, error) {
	if e.err != nil {
		return false, e.err
	}

	_, err := e.db.Pool.Exec(ctx, `UPDATE dag_runs SET status = 'cancelled', finished_at = now() WHERE id = $1 AND cancel`, runID)

	return true, err
}

// nothing is what a deletion does not use.
type nothing struct{}

func (nothing) Send(context.Context, domain.Caller, domain.Send) (domain.SendAck, error) {
	return domain.SendAck{}, nil
}

func (nothing) Stop(context.Context, domain.Caller, domain.SessionID, bool) (bool, error) {
	return false, nil
}

func (nothing) OwnSession(context.Context, domain.User, domain.SessionID) (domain.Session, error) {
	return domain.Session{}, nil
}

func (nothing) EnsureSession(context.Context, string, domain.NewSession) error { return nil }
func (nothing) StartSession(context.Context, string, prodagent.Start) error    { return nil }
func (nothing) LastAt(context.Context, domain.SessionID) (time.Time, error)    { return time.Time{}, nil }

func TestService_DeleteSolution_temporalUnavailable(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	user := pgtest.User(t, db, "owner", false)

	set := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', $2)`, user.ID, json.RawMessage(`{}`))

	temporal := &engine{db: db, err: errors.New("connection refused")}
	carrier := files.Carrier{Workspaces: workspace.New(t.TempDir()), Snapshots: snapshots.New(snapshots.Config{})}
	s, err := dagruns.New(dagruns.Deps{
		DB: db.DB, Sessions: nothing{}, Files: carrier, Runs: temporal, Chats: nothing{}, Agents: nothing{}, Events: nothing{},
		Production: production.New(production.Deps{DB: db.DB}), Logger: slog.New(slog.DiscardHandler), CodeTimeout: time.Minute,
	})
	require.NoError(t, err)

	err = s.DeleteSolution(t.Context(), user, "p")
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, "%v", err)

	set(`UPDATE dag_runs SET created_at = created_at - interval '1 minute'`)

	stalled, err := s.StalledDAGRuns(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"r"}, stalled, "the reconciler cancels it again")

	temporal.err = nil
	require.NoError(t, s.DeleteSolution(t.Context(), user, "p"), "the request can be repeated")
}
