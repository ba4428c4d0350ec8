package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/workflows"
)

// steps stand for the database of one run: agents between a start and an end, and their
// chats, which last for as long as given.
type steps struct {
	mu     sync.Mutex
	loaded contract.LoadDAGRunOut
	lasts  time.Duration

	events []string
	status map[string]dagrun.Status
	stored contract.StoreDAGRunIn
	ended  map[string]bool // chats
}

func newSteps(agents int, lasts time.Duration) *steps {
	s := &steps{lasts: lasts, status: map[string]dagrun.Status{}, ended: map[string]bool{}}
	s.loaded.Status = dagrun.Running
	s.loaded.Nodes = []dag.Node{{ID: "s", Type: dag.Start}, {ID: "z", Type: dag.End}}

	for i := range agents {
		id := fmt.Sprintf("a%d", i)
		s.loaded.Nodes = append(s.loaded.Nodes, dag.Node{ID: id, Type: dag.Agent})
		s.loaded.Edges = append(s.loaded.Edges, dag.Edge{ID: fmt.Sprint(2 * i), Source: "s", Target: id},
			dag.Edge{ID: fmt.Sprint(2*i + 1), Source: id, Target: "z"})
	}

	for _, n := range s.loaded.Nodes {
		s.loaded.Units = append(s.loaded.Units, dagrun.Unit{NodeID: n.ID, Item: dagrun.NoItem, Status: dagrun.Pending})
	}

	return s
}

func (s *steps) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *steps) count(event string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, e := range s.events {
		if e == event {
			n++
		}
	}

	return n
}

// play runs the workflow on the steps.
func (s *steps) play(t *testing.T, prepare func(env *testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()

	env := newEnvironment()
	contract.LoadDAGRun.Handle(env, func(context.Context, contract.LoadDAGRunIn) (contract.LoadDAGRunOut, error) { return s.loaded, nil })
	contract.ActivateDAGNode.Handle(env, func(_ context.Context, in contract.ActivateDAGNodeIn) (dagrun.Outcome, error) {
		s.note("activate %s", in.NodeID)

		if in.NodeID == "s" || in.NodeID == "z" {
			return dagrun.Outcome{Status: dagrun.Completed}, nil
		}

		return dagrun.Outcome{Status: dagrun.Ready}, nil
	})
	contract.BeginDAGNode.Handle(env, func(_ context.Context, in contract.DAGAttempt) (contract.BeginDAGNodeOut, error) {
		s.note("begin %s", in.NodeID)

		return contract.BeginDAGNodeOut{
			UnitID: in.NodeID, SessionID: domain.SessionID(in.NodeID), ChatID: domain.ChatID("chat of " + in.NodeID),
		}, nil
	})
	contract.TakeDAGNode.Handle(env, func(_ context.Context, in contract.DAGAttempt) (dagrun.Outcome, error) {
		s.mu.Lock()
		ended := s.ended[in.NodeID]
		s.mu.Unlock()

		if !ended {
			return dagrun.Outcome{Status: dagrun.Running}, nil
		}

		s.note("take %s", in.NodeID)

		return dagrun.Outcome{Status: dagrun.Completed}, nil
	})
	contract.StopDAGNode.Handle(env, func(_ context.Context, in contract.StopDAGNodeIn) (struct{}, error) {
		s.note("stop %s", in.UnitID)
		return struct{}{}, nil
	})
	contract.StoreDAGRun.Handle(env, func(_ context.Context, in contract.StoreDAGRunIn) (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		s.stored = in
		for _, u := range in.Units {
			s.status[u.NodeID] = u.Status
		}

		return struct{}{}, nil
	})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.ChatInput) error {
		if err := workflow.Sleep(ctx, s.lasts); err != nil {
			return err
		}

		s.mu.Lock()
		s.ended[string(in.SessionID)] = true
		s.mu.Unlock()

		return nil
	}, workflow.RegisterOptions{Name: contract.WorkflowChat})

	if prepare != nil {
		prepare(env)
	}

	env.ExecuteWorkflow(workflows.DAGRun, contract.DAGRunInput{RunID: "r1"})
	require.True(t, env.IsWorkflowCompleted())

	return env
}

// A node is a child workflow: the chat of its session, for weeks if need be.
func TestDAGRun_nodesAreChildren(t *testing.T) {
	t.Parallel()

	s := newSteps(3, 21*24*time.Hour)

	var children []string

	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
			children = append(children, info.WorkflowExecution.ID)
		})
	})
	require.NoError(t, env.GetWorkflowError())

	slices.Sort(children)
	require.Equal(t, []string{"session/a0", "session/a1", "session/a2"}, children)
	require.Equal(t, dagrun.Completed, s.stored.Status)

	for _, id := range []string{"a0", "a1", "a2"} {
		require.Equal(
			t,
			[]int{1, 1, 1, 0},
			[]int{s.count("activate " + id), s.count("begin " + id), s.count("take " + id), s.count("stop " + id)},
		)
	}
}

// However many nodes are ready, a bounded number of children is open.
func TestDAGRun_boundsChildren(t *testing.T) {
	t.Parallel()

	s := newSteps(dagrun.MaxWidth+8, time.Hour)
	open, most := 0, 0

	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converter.EncodedValues) {
			open++
			most = max(most, open)
		})
		env.SetOnChildWorkflowCompletedListener(func(*workflow.Info, converter.EncodedValue, error) { open-- })
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, dagrun.MaxWidth, most)
}

// A cancellation, such as by an operator, stops the work of the nodes and ends the run. That
// the workflows of the children are cancelled is seen in TestDAGRun_cancelledByOperator.
func TestDAGRun_cancelled(t *testing.T) {
	t.Parallel()

	s := newSteps(2, 24*time.Hour)
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	})
	require.Error(t, env.GetWorkflowError(), "it closes as cancelled")
	require.Equal(t, dagrun.Cancelled, s.stored.Status)
	require.Equal(t, []int{1, 1}, []int{s.count("stop a0"), s.count("stop a1")})
	require.Equal(t, map[string]dagrun.Status{"a0": dagrun.Cancelled, "a1": dagrun.Cancelled, "z": dagrun.Cancelled}, s.status)
}

// A chat whose workflow does not close, because its user writes to the session, has ended
// for the run when the signal comes.
func TestDAGRun_signalled(t *testing.T) {
	t.Parallel()

	s := newSteps(1, 365*24*time.Hour)
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			s.ended["a0"] = true
			env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{ChatID: "chat of a0"})
		}, time.Hour)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, dagrun.Completed, s.stored.Status)
	require.Zero(t, s.count("stop a0"))
}

// A long history is continued in a new workflow, which takes the open children over.
func TestDAGRun_continuesAsNew(t *testing.T) {
	t.Parallel()

	s := newSteps(2, 24*time.Hour)
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) { env.SetCurrentHistoryLength(3000) })
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()), "%v", env.GetWorkflowError())
	require.Equal(t, []int{1, 1, 0}, []int{s.count("begin a0"), s.count("begin a1"), s.count("stop a0")})

	next := newSteps(2, 0)
	next.ended["a0"] = true

	for i := range next.loaded.Units {
		u := &next.loaded.Units[i]

		switch u.NodeID {
		case "s":
			u.Status = dagrun.Completed
		case "a0", "a1":
			u.Status, u.Phase, u.Attempt, u.Begun = dagrun.Running, dagrun.PhaseWork, 1, true
			u.ID, u.ChatID = u.NodeID, domain.ChatID("chat of "+u.NodeID)
		}
	}

	env = next.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			next.ended["a1"] = true
			env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{ChatID: "chat of a1"})
		}, time.Hour)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, dagrun.Completed, next.stored.Status)
	require.Equal(t, []int{0, 0, 1, 1}, []int{next.count("begin a0"), next.count("begin a1"), next.count("take a0"), next.count("take a1")})
}

// Work that a run left behind at its end is stopped by the next workflow.
func TestDAGRun_stopsLeftovers(t *testing.T) {
	t.Parallel()

	s := newSteps(0, 0)
	s.loaded = contract.LoadDAGRunOut{
		Status: dagrun.Failed,
		Units:  []dagrun.Unit{{ID: "old", NodeID: "a", Item: dagrun.NoItem, Stop: true}},
	}

	env := s.play(t, nil)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"stop old"}, s.events)
	require.Empty(t, s.stored.Status)
}
