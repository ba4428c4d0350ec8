package dagruns

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/schedule"
)

// deletable is a solution with one run, a subflow of another one's.
type deletable struct {
	Store
	ended, deleted bool
}

func (d *deletable) CancelDAGRunsOf(context.Context, domain.User, string) ([]dagrun.Ref, error) {
	if d.ended {
		return nil, nil
	}

	return []dagrun.Ref{{RunID: "r", SolutionID: "s"}}, nil
}

func (d *deletable) AdvanceDAGRun(context.Context, string) (dagrun.Step, error) {
	d.ended = true
	return dagrun.Step{Ended: true, Parent: "p", ParentSolution: "other"}, nil
}

func (d *deletable) DeleteProdSolution(context.Context, domain.User, string) (bool, error) {
	d.deleted = d.ended
	return d.deleted, nil
}

// engine is Temporal; each call takes the next of the errors.
type engine struct {
	Runs
	errs []error
}

func (e *engine) next() (err error) {
	if len(e.errs) > 0 {
		err, e.errs = e.errs[0], e.errs[1:]
	}

	return err
}

func (e *engine) ResumeDAGRun(context.Context, string, string) error { return e.next() }

func (e *engine) NotifyWaiter(context.Context, schedule.ChatWaiter) (bool, error) {
	err := e.next()
	return err == nil, err
}

func TestService_DeleteSolution_temporalAway(t *testing.T) {
	t.Parallel()

	away := errors.New("rpc error: code = Unavailable desc = connection refused")

	for name, c := range map[string]struct {
		errs []error
		open bool // the run, which the repair then signals
	}{
		"from the start":               {errs: []error{away}, open: true},
		"when its parent is signalled": {errs: []error{nil, away}},
		"once the run has ended":       {errs: []error{nil, nil, away}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			store, runs := &deletable{}, &engine{errs: c.errs}
			s := &Service{Config{Store: store, Runs: runs, Logger: slog.New(slog.DiscardHandler)}}

			err := s.DeleteSolution(t.Context(), domain.User{}, "s")
			require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, "%v", err)
			require.False(t, store.deleted)
			require.Equal(t, c.open, !store.ended)

			require.NoError(t, s.DeleteSolution(t.Context(), domain.User{}, "s"), "the request can be repeated")
			require.True(t, store.deleted)
		})
	}
}
