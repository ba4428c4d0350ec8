package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/history"
	domainoperator "everloop/domain/operator"
	"everloop/domain/transfer"
	"everloop/service/operator"
)

// fakes are an engine and a database with the runs and jobs of a test. They note what
// was done.
type fakes struct {
	operator.Engine
	operator.Store
	states map[string]domain.RunState
	jobs   []domainoperator.Job
	runs   []domainoperator.Run
	done   []string
}

func (f *fakes) note(what, id string) error {
	f.done = append(f.done, what+" "+id)
	return nil
}

func (f *fakes) Runs(context.Context, domainoperator.RunQuery) ([]domainoperator.Run, []byte, error) {
	return f.runs, nil, nil
}

func (f *fakes) Describe(_ context.Context, id, _ string) (domain.RunState, string, error) {
	state, known := f.states[id]
	if !known {
		state = domain.RunUnknown
	}

	return state, "", nil
}

func (f *fakes) Terminate(_ context.Context, id, _, _ string) error { return f.note("terminate", id) }
func (f *fakes) Cancel(_ context.Context, id string) error          { return f.note("cancel", id) }
func (f *fakes) ForceFail(_ context.Context, id, _ string) error    { return f.note("force-fail", id) }

func (f *fakes) Wake(_ context.Context, s domain.SessionRun) error {
	return f.note("wake", string(s.SessionID))
}

func (f *fakes) StartArchive(context.Context) error { return f.note("archive", "") }

func (f *fakes) ResumeScheduledRun(_ context.Context, id string) error { return f.note("resume", id) }

func (f *fakes) ResumeIssueRun(_ context.Context, id string) error { return f.note("resume", id) }

func (f *fakes) StartReplay(_ context.Context, id domain.SessionID, _ string) error {
	return f.note("start", string(id))
}

func (f *fakes) ResumeDAGRun(_ context.Context, sol, id string) error {
	return f.note("resume", sol+" "+id)
}

func (f *fakes) StartImport(_ context.Context, in transfer.Import) error {
	return f.note("start", string(in.SessionID))
}

func (f *fakes) StartDeletion(_ context.Context, in domain.DeletedSession) error {
	return f.note("start", string(in.SessionID))
}

func (f *fakes) StartMove(_ context.Context, op history.Operation) error {
	return f.note("start", string(op.Kind)+" "+op.ID)
}

func (f *fakes) StartCompaction(_ context.Context, in domain.CompactionRun) error {
	return f.note("start", in.ID)
}

func (f *fakes) Jobs(_ context.Context, ids map[string][]string) (found []domainoperator.Job, err error) {
	for range ids {
		return f.jobs, nil
	}

	return nil, nil
}

func (f *fakes) OpenWork(_ context.Context, kind, after string, limit int) ([]domainoperator.Job, error) {
	var page []domainoperator.Job
	for _, job := range f.jobs {
		if kind == "dag" && job.WorkflowID > "dag/s/"+after && len(page) < limit {
			page = append(page, job)
		}
	}

	return page, nil
}

func (f *fakes) SessionRun(_ context.Context, _ string, id domain.SessionID) (domain.SessionRun, error) {
	return domain.SessionRun{SessionID: id}, nil
}

func (f *fakes) EndCompaction(_ context.Context, id, _ string) (bool, error) {
	return true, f.note("end", id)
}

func (f *fakes) CancelDAGRun(_ context.Context, id string) (bool, error) {
	return true, f.note("cancel", id)
}

func (f *fakes) FailDAGRun(_ context.Context, id, _, _ string) (bool, error) {
	return true, f.note("fail", id)
}

func (f *fakes) MarkTaskLost(_ context.Context, id, _ string) (domain.TaskStatus, error) {
	return domain.TaskLost, f.note("lose", id)
}
func (f *fakes) LoseAgent(_ context.Context, id, _ string) error { return f.note("lose", id) }

// ends are the services of other kinds of work.
type ends struct{ *fakes }

func (e ends) CancelRun(_ context.Context, id string) (bool, error) {
	return true, e.note("cancel", id)
}

func (e ends) CancelAnyRun(_ context.Context, id string) (bool, error) {
	return true, e.note("cancel", id)
}
func (e ends) FailRun(_ context.Context, id, _, _ string) error { return e.note("fail", id) }

type stopper struct{ *fakes }

func (s stopper) Stop(_ context.Context, _ domain.SessionID, id string) (domain.BackgroundTask, error) {
	return domain.BackgroundTask{}, s.note("stop", id)
}

func newService(t *testing.T, f *fakes) *operator.Service {
	t.Helper()

	s, err := operator.New(operator.Config{Engine: f, Store: f, Tasks: stopper{f}, Schedules: ends{f}, Board: ends{f}})
	require.NoError(t, err)

	return s
}

// Cancel, force-fail and resume of each kind, or the reason why one is refused.
func TestService_actions(t *testing.T) {
	t.Parallel()

	for id, c := range map[string]struct{ cancel, fail, resume []string }{
		"session/x": {[]string{"cancel session/x"}, []string{"force-fail session/x"}, []string{"terminate session/x", "wake x"}},
		"fork/c/x":  {[]string{"cancel fork/c/x"}, []string{"force-fail fork/c/x"}, nil},
		"task/x":    {[]string{"stop x"}, []string{"lose x", "terminate task/x"}, nil},
		"compact/x": {
			[]string{"end x", "terminate compact/x"},
			[]string{"end x", "terminate compact/x"},
			[]string{"terminate compact/x", "start x"},
		},
		"replay/x":    {nil, nil, []string{"terminate replay/x", "start x"}},
		"history/s/x": {[]string{"cancel history/s/x"}, nil, []string{"terminate history/s/x", "start  x"}},
		"import/x":    {[]string{"cancel import/x"}, nil, []string{"terminate import/x", "start x"}},
		"delete/x":    {nil, nil, []string{"terminate delete/x", "start x"}},
		"archive":     {nil, nil, []string{"terminate archive", "archive "}},
		"schedule-run/x": {
			[]string{"cancel x", "resume x"},
			[]string{"fail x", "terminate schedule-run/x"},
			[]string{"terminate schedule-run/x", "resume x"},
		},
		"issue-run/x": {
			[]string{"cancel x", "resume x"},
			[]string{"fail x", "terminate issue-run/x"},
			[]string{"terminate issue-run/x", "resume x"},
		},
		"dag/s/x": {
			[]string{"cancel x", "resume s x"},
			[]string{"fail x", "terminate dag/s/x", "resume s x"},
			[]string{"terminate dag/s/x", "resume s x"},
		},
		"schedule-tick/x-2026": {nil, nil, nil},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()

			f := &fakes{
				states: map[string]domain.RunState{id: domain.RunOpen},
				jobs:   []domainoperator.Job{{WorkflowID: id, Open: true, SessionID: "s", OwnerID: "o", Status: "running"}},
			}

			s := newService(t, f)
			for name, action := range map[string]struct {
				do   func() error
				want []string
			}{
				"cancel":     {func() error { return s.Cancel(t.Context(), id) }, c.cancel},
				"force-fail": {func() error { return s.ForceFail(t.Context(), id, "because") }, c.fail},
				"resume":     {func() error { return s.Resume(t.Context(), id) }, c.resume},
			} {
				f.done = nil
				err := action.do()
				require.Equal(t, action.want, f.done, name)

				if action.want == nil {
					require.Equal(t, domain.Conflict, domain.AsError(err).Kind, name)
				} else {
					require.NoError(t, err, name)
				}
			}

			f.states[id], f.jobs[0].Open = domain.RunClosed, false
			if id != "archive" {
				require.True(t, domain.HasCode(s.Resume(t.Context(), id), "run_not_found"))
			}

			require.True(t, domain.HasCode(s.Cancel(t.Context(), id), "run_not_found"))
		})
	}
}

func TestService_Resume_notWhatWaitsForAnAnswer(t *testing.T) {
	t.Parallel()

	f := &fakes{
		states: map[string]domain.RunState{"session/x": domain.RunOpen},
		jobs:   []domainoperator.Job{{WorkflowID: "session/x", Open: true, Status: "parked"}},
	}
	s := newService(t, f)
	require.True(t, domain.HasCode(s.Resume(t.Context(), "session/x"), "run_waits_for_answer"))
	require.Empty(t, f.done)
	f.runs = []domainoperator.Run{
		{WorkflowID: "session/x", Kind: "chat", Status: "running"},
		{WorkflowID: "session/x", Kind: "chat", Status: "failed"},
	}
	runs, _, err := s.Runs(t.Context(), domainoperator.RunQuery{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []domainoperator.RunAction{domainoperator.RunCancel, domainoperator.RunForceFail}, runs[0].Actions)
	require.Equal(t, "parked", runs[0].Work.Status)
	require.Empty(t, runs[1].Actions)
}

func TestService_ForceFail_notWhatWaitsForItsTurn(t *testing.T) {
	t.Parallel()

	f := &fakes{jobs: []domainoperator.Job{{WorkflowID: "issue-run/x", Open: true, Status: "queued"}}}
	s := newService(t, f)
	require.True(t, domain.HasCode(s.ForceFail(t.Context(), "issue-run/x", "because"), "run_action_impossible"))
	require.Empty(t, f.done)
	require.NoError(t, s.Cancel(t.Context(), "issue-run/x"))
	require.Equal(t, []string{"cancel x", "resume x"}, f.done)
}

func TestService_Runs_lost(t *testing.T) {
	t.Parallel()

	f := &fakes{states: map[string]domain.RunState{"dag/s/b": domain.RunOpen, "dag/s/c": domain.RunClosed}}
	for _, id := range []string{"a", "b", "c", "d"} {
		f.jobs = append(f.jobs, domainoperator.Job{WorkflowID: "dag/s/" + id, Open: true, Status: "running", OwnerID: "o"})
	}

	s := newService(t, f)

	var listed []string

	q := domainoperator.RunQuery{Status: domainoperator.RunLost, Limit: 2}

	for pages := 1; ; pages++ {
		require.Less(t, pages, 10)
		runs, next, err := s.Runs(t.Context(), q)
		require.NoError(t, err)

		for _, run := range runs {
			listed = append(listed, run.WorkflowID)
			require.Equal(t, domainoperator.RunLost, run.Status)
			require.Equal(
				t,
				[]domainoperator.RunAction{domainoperator.RunCancel, domainoperator.RunForceFail, domainoperator.RunResume},
				run.Actions,
			)
		}

		if q.Page = next; next == nil {
			break
		}
	}

	require.Equal(t, []string{"dag/s/a", "dag/s/c", "dag/s/d"}, listed)
	_, _, err := s.Runs(t.Context(), domainoperator.RunQuery{Status: domainoperator.RunLost, Limit: 2, Page: []byte("odd")})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
}
