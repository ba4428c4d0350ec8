package systemtest

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"everloop/activities/background"
	"everloop/domain"
	domainboard "everloop/domain/board"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	domainoperator "everloop/domain/operator"
	"everloop/domain/prodagent"
	"everloop/domain/production"
	"everloop/domain/schedule"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/agents"
	"everloop/service/board"
	"everloop/service/schedules"
	targetservice "everloop/service/targets"
	"everloop/service/work"
	"everloop/worker"
)

// scheduledRuns and agentRuns are kinds of open work.
func scheduledRuns(s *stack, engine temporal.Runs, tasks *schedules.Service) work.Kind {
	return work.ScheduledRuns(engine, work.UnattendedRuns{
		Stalled: s.journal.StalledRuns, Cancel: tasks.CancelRun, Fail: tasks.FailRun,
	})
}

func agentRuns(s *stack, engine temporal.Runs, issues *board.Service) work.Kind {
	return work.AgentRuns(engine, work.UnattendedRuns{
		Stalled: issues.StalledIssueRuns, Cancel: issues.CancelAnyRun, Fail: issues.FailRun,
	})
}

// operated is a stack with every kind of unattended work, and the administrators' service.
type operated struct {
	*works
	issues    *board.Service
	tasks     *schedules.Service
	operator  *work.Operator
	engine    temporal.Runs
	workspace string
	agent     string
	repairs   func()
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	s := &operated{works: newWorks(t)}
	s.engine = temporal.Runs{Client: s.client, Queue: s.queue, Namespace: s.stack.runs.Namespace, Subjects: work.NewStore(s.db.DB)}
	engine := s.engine

	var err error

	s.issues = s.newBoard(engine)

	s.tasks, err = schedules.New(
		schedules.Config{
			Store:   s.journal,
			Engine:  engine,
			Chats:   s.chats,
			Models:  s.acts.Model.Models,
			Agents:  s.agents,
			Targets: targetservice.New(targetservice.Deps{Chats: s.chats, Agents: s.agents, DAGs: s.works.runs, Board: s.issues}),
			Logger:  s.logger,
		},
	)
	require.NoError(t, err)
	worker.RegisterSchedules(s.worker, &background.Schedules{Tasks: s.tasks})

	kinds := []work.Kind{
		scheduledRuns(s.works.stack, engine, s.tasks), agentRuns(s.works.stack, engine, s.issues), work.DAGRuns(s.works.runs),
		work.BackgroundTasks(work.TaskEnds{
			Stop: s.works.stack.tasks.Stop, MarkLost: s.works.stack.tasks.MarkTaskLost, LoseAgent: s.works.stack.tasks.LoseAgent,
		}),
	}
	s.operator = work.NewOperator(work.NewStore(s.db.DB), engine,
		temporal.Operator{Client: s.client, Chats: s.chats, Marks: s.journal}, kinds)

	checks := []func(context.Context) error{
		s.tasks.Reconcile, s.issues.Repair,
		s.check(1, kinds[:2]...),
	}
	s.repairs = func() {
		s.repair()

		for _, check := range checks {
			require.NoError(t, check(t.Context()))
		}
	}

	user := s.caller.User.ID
	workspace, err := s.issues.CreateWorkspace(
		t.Context(),
		user,
		domainboard.NewWorkspace{Name: "Web", Settings: domainboard.DefaultWorkspaceSettings},
	)
	require.NoError(t, err)

	s.workspace, s.agent = workspace.ID, domain.NewID()
	_, err = agents.NewStore(s.db.DB).CreateAgentInstance(t.Context(), prodagent.Instance{
		ID: s.agent, OwnerID: user, Name: "Builder", RuntimeID: prodagent.BuiltinRuntime, MaxConcurrentTasks: 4,
		Visibility: prodagent.VisibilityWorkspace,
	})
	require.NoError(t, err)

	return s
}

// piece is a run of some kind that has had its effect and is held back.
type piece struct {
	workflow string
	table    string // where its row is, for the age
	id       string
	session  domain.SessionID // of the chat that is held back
	// state is how the run is now, with its reason code and its error.
	state func() (status, code, message string)
}

// effect returns a script whose command writes a line once, and whose answer is held back.
func effect(file string) string {
	return script(obj{"steps": []obj{
		{"calls": []obj{{"name": "Bash", "arguments": obj{"command": "echo once >> " + file}}}},
		{"text": "at last", "hold": true},
	}})
}

func (s *operated) dag(file string) piece {
	s.t.Helper()
	user := s.caller.User

	prompt, err := json.Marshal("go" + script(obj{"steps": []obj{{"text": "at last", "hold": true}}}))
	require.NoError(s.t, err)

	var g dag.Graph
	require.NoError(s.t, json.Unmarshal([]byte(`{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"},
		{"id":"one","type":"tool","config":{"tool":"Bash","arguments":{"command":"echo once >> `+file+`"}}},
		{"id":"two","type":"agent","config":{"prompt":`+string(prompt)+`}}],
		"edges":[`+strings.Join([]string{edge("e1", "s", "one"), edge("e2", "one", "two"), edge("e3", "two", "z")}, ",")+`]}`), &g))
	solution, err := s.graphs.Create(s.t.Context(), production.NewSolution{OwnerID: user.ID, Name: "n"})
	require.NoError(s.t, err)
	_, err = s.graphs.PublishDAG(s.t.Context(), user, solution.ID, 1, &g, "")
	require.NoError(s.t, err)
	run, err := s.works.runs.Start(s.t.Context(), user, solution.ID, 0, json.RawMessage(`{}`))
	require.NoError(s.t, err)

	read := func() dagrun.RunRecord {
		run, err := s.works.runs.DAGRun(s.t.Context(), user, solution.ID, run.ID)
		require.NoError(s.t, err)

		return run
	}
	nodes := func() []dagrun.NodeRecord {
		nodes, err := s.works.runs.DAGRunNodes(s.t.Context(), run.ID, false)
		require.NoError(s.t, err)

		return nodes
	}
	work := piece{
		workflow: durable.DAGRunWorkflowID(solution.ID, run.ID), table: "dag_runs", id: run.ID,
		state: func() (status, code, message string) {
			now := read()
			if now.Error != nil {
				code, message = now.Error.Code, now.Error.Message
			}

			for _, n := range nodes() {
				require.LessOrEqual(s.t, n.Attempt, 1, n.NodeID)
			}

			return string(now.Status), code, message
		},
	}

	require.Eventually(s.t, func() bool {
		s.repairs()

		started := nodes()

		i := slices.IndexFunc(started, func(n dagrun.NodeRecord) bool { return n.NodeID == "two" && n.SessionID != nil })
		if i >= 0 {
			work.session = *started[i].SessionID
		}

		return i >= 0
	}, patience, 50*time.Millisecond, "the second node did not begin")

	return work
}

func (s *operated) issue(file string) piece {
	s.t.Helper()

	title, text := "Paint the wall", effect(file)
	issue, err := s.issues.CreateIssue(s.t.Context(), s.caller.User.ID, s.workspace, domainboard.IssueFields{
		Title: &title, Description: &text, Assignee: &domainboard.AssigneeRef{Type: domainboard.ActorAgent, ID: s.agent},
	})
	require.NoError(s.t, err)

	read := func() domainboard.IssueRun {
		found, _, err := s.issues.IssueRuns(s.t.Context(), s.caller.User.ID, s.workspace, issue.ID, 10, 0)
		require.NoError(s.t, err)
		require.Len(s.t, found, 1)

		return found[0]
	}

	require.Eventually(s.t, func() bool { return read().Status == domainboard.IssueRunRunning }, patience, 20*time.Millisecond)

	return piece{
		workflow: durable.IssueRunWorkflowID(read().ID), table: "issue_runs", id: read().ID, session: *read().SessionID,
		state: func() (status, code, message string) {
			now := read()
			if now.ReasonCode != nil {
				code = *now.ReasonCode
			}

			if now.Error != nil {
				message = *now.Error
			}

			return string(now.Status), code, message
		},
	}
}

func (s *operated) schedule(file string) piece {
	s.t.Helper()
	user := s.caller.User.ID

	task, err := s.tasks.Create(s.t.Context(), user, schedule.TaskSpec{
		Title: "t", Prompt: effect(file), Cron: "@yearly", Timezone: "UTC", Overlap: schedule.OverlapSkip, CatchupWindowS: 3600,
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = s.tasks.Delete(context.Background(), user, task.ID) })

	run, err := s.tasks.RunNow(s.t.Context(), user, task.ID)
	require.NoError(s.t, err)

	read := func() schedule.Run {
		found, err := s.tasks.History(s.t.Context(), user, task.ID, 0, 1)
		require.NoError(s.t, err)
		require.Len(s.t, found, 1)

		return found[0]
	}

	require.Eventually(s.t, func() bool { return read().SessionID != nil }, patience, 20*time.Millisecond)

	return piece{
		workflow: durable.ScheduledRunWorkflowID(run.ID), table: "scheduled_runs", id: run.ID, session: *read().SessionID,
		state: func() (status, code, message string) {
			now := read()
			if now.ErrorCode != nil {
				code = *now.ErrorCode
			}

			if now.Error != nil {
				message = *now.Error
			}

			return string(now.Status), code, message
		},
	}
}

// lose closes the workflow of a run behind the service's back, or removes all that Temporal
// knows of it.
func (s *operated) lose(work piece, history bool) {
	s.t.Helper()
	require.NoError(s.t, s.client.TerminateWorkflow(s.t.Context(), work.workflow, "", "terminated by the test"))

	if history {
		_, err := s.client.WorkflowService().DeleteWorkflowExecution(s.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: s.stack.runs.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: work.workflow},
		})
		require.NoError(s.t, err)
		require.Eventually(s.t, func() bool {
			state, _, err := s.stack.runs.Describe(s.t.Context(), work.workflow, "")
			return err == nil && state == domain.RunUnknown
		}, patience, 50*time.Millisecond, "the history is still there")
	}

	s.backdate(work)

	lost, _, err := s.operator.Runs(s.t.Context(), domainoperator.RunQuery{Status: domainoperator.RunLost, Limit: 200})
	require.NoError(s.t, err)

	i := slices.IndexFunc(lost, func(r domainoperator.Run) bool { return r.WorkflowID == work.workflow })
	require.GreaterOrEqual(s.t, i, 0, "%s is not listed as lost", work.workflow)
	require.Equal(
		s.t,
		[]domainoperator.RunAction{domainoperator.RunCancel, domainoperator.RunForceFail, domainoperator.RunResume},
		lost[i].Actions,
	)
	require.Equal(s.t, s.caller.User.ID, lost[i].OwnerID)
}

// backdate makes a run look as if it had started a minute ago.
func (s *operated) backdate(work piece) {
	s.t.Helper()

	column := "created_at = now() - interval '1 minute'"

	switch work.table {
	case "issue_runs":
		column += ", dispatched_at = now() - interval '1 minute'"
	case "scheduled_runs":
		column = "triggered_at = now() - interval '1 minute'"
	}

	_, err := s.journal.Pool.Exec(s.t.Context(), `UPDATE `+work.table+` SET `+column+` WHERE id = $1`, work.id)
	require.NoError(s.t, err)
}

// settled waits until a run has ended.
func (s *operated) settled(work piece) (status, code, message string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.repairs()

		status, code, message = work.state()

		return slices.Contains([]string{"completed", "failed", "cancelled"}, status)
	}, patience, 50*time.Millisecond, "the run did not end")

	return status, code, message
}

// stopped waits until the chat of a run is stopped.
func (s *operated) stopped(work piece) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.repairs()
		return s.status(work.session) == domain.SessionInterrupted
	}, patience, 50*time.Millisecond, "its chat goes on")
}

// Runs whose workflows are started without their owner in the input are found by it too.
func TestOperator_Runs_byOwner(t *testing.T) {
	t.Parallel()
	s := newOperated(t)
	of := func(ownerID string) (found []string) {
		runs, _, err := s.operator.Runs(t.Context(), domainoperator.RunQuery{OwnerID: ownerID, Status: "running", Limit: 200})
		require.NoError(t, err)

		for _, run := range runs {
			found = append(found, run.WorkflowID)
		}

		return found
	}

	for kind, begin := range map[string]func(file string) piece{"issue": s.issue, "schedule": s.schedule} {
		work := begin("owned-by-" + kind)
		require.Eventually(t, func() bool { // the list comes a little later than the run
			return slices.Contains(of(s.caller.User.ID), work.workflow)
		}, patience, 50*time.Millisecond, kind)
	}

	work := s.dag("owned-by-dag")

	require.Eventually(t, func() bool { return slices.Contains(of(s.caller.User.ID), work.workflow) }, patience, 50*time.Millisecond)
	require.Empty(t, of(domain.NewID()))
}

// Runs of every kind of unattended work whose workflow was terminated, or forgotten by
// Temporal, behind the service's back.
func TestOperator_workWithoutItsWorkflow(t *testing.T) {
	t.Parallel()
	s := newOperated(t)

	once := func(t *testing.T, file string) {
		t.Helper()

		found := s.inWorkspaces(file)
		require.Len(t, found, 1)
		written, err := os.ReadFile(found[0])
		require.NoError(t, err)
		require.Equal(t, "once\n", string(written), "what had been done was done again")
	}

	for kind, begin := range map[string]func(file string) piece{"dag": s.dag, "issue": s.issue, "schedule": s.schedule} {
		for _, history := range []bool{false, true} {
			how := map[bool]string{false: "terminated", true: "forgotten"}[history]

			t.Run(kind+" "+how+" is resumed", func(t *testing.T) {
				file := strings.ReplaceAll(t.Name(), "/", "-")
				work := begin(file)
				s.awaitText(work.session)
				s.lose(work, history)
				require.NoError(t, s.operator.Resume(t.Context(), work.workflow))
				require.True(t, domain.HasCode(s.operator.ForceFail(t.Context(), "dag/none/none", "r"), "run_not_found"))
				s.releaseUntil(func() bool { return s.anyChatEnded(work.session) })

				status, _, message := s.settled(work)
				require.Equal(t, "completed", status, message)
				once(t, file)
				require.Eventually(t, func() bool { // its workflow closes a moment after the run
					return domain.HasCode(s.operator.Resume(t.Context(), work.workflow), "run_not_found")
				}, patience, 50*time.Millisecond)
			})
		}

		t.Run(kind+" is failed by force", func(t *testing.T) {
			file := strings.ReplaceAll(t.Name(), "/", "-")
			work := begin(file)
			s.awaitText(work.session)
			s.lose(work, false)
			require.NoError(t, s.operator.ForceFail(t.Context(), work.workflow, "the paint is gone"))

			status, code, message := s.settled(work)
			require.Equal(t, []string{"failed", "run_lost", "the paint is gone"}, []string{status, code, message})
			s.stopped(work)
			once(t, file)
		})

		t.Run(kind+" is cancelled", func(t *testing.T) {
			file := strings.ReplaceAll(t.Name(), "/", "-")
			work := begin(file)
			s.awaitText(work.session)
			s.lose(work, false)
			require.NoError(t, s.operator.Cancel(t.Context(), work.workflow))

			status, code, message := s.settled(work)
			if kind == "schedule" { // its states are those of the specification
				require.Equal(t, []string{"failed", "cancelled"}, []string{status, code})
			} else {
				require.Equal(t, "cancelled", status, code+": "+message)
			}

			s.stopped(work)
			once(t, file)
		})
	}
}
