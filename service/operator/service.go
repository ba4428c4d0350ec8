// Package operator shows administrators the runs of every kind of work, why they wait
// and what may be done with them, and ends or resumes them. It knows how each kind is
// ended; how work is carried out is no business of it.
package operator

import (
	"context"
	"errors"
	"slices"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/domain/operator"
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// Engine is the workflow engine.
type Engine interface {
	Runs(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error)
	// Describe looks at the newest run of a workflow.
	Describe(ctx context.Context, workflowID, runID string) (domain.RunState, string, error)
	Terminate(ctx context.Context, workflowID, runID, reason string) error
	// Cancel and ForceFail end an open run, and stop its chat; run_not_found.
	Cancel(ctx context.Context, workflowID string) error
	ForceFail(ctx context.Context, workflowID, reason string) error

	Wake(ctx context.Context, s domain.SessionRun) error
	StartReplay(ctx context.Context, sessionID domain.SessionID, ownerID string) error
	StartCompaction(ctx context.Context, in domain.CompactionRun) error
	StartDeletion(ctx context.Context, in domain.DeletedSession) error
	StartMove(ctx context.Context, op history.Operation) error
	StartImport(ctx context.Context, in transfer.Import) error
	StartArchive(ctx context.Context) error
	ResumeScheduledRun(ctx context.Context, runID string) error
	ResumeIssueRun(ctx context.Context, runID string) error
	ResumeDAGRun(ctx context.Context, solutionID, runID string) error
}

// Store is what the database knows of the work that runs carry.
type Store interface {
	Jobs(ctx context.Context, ids map[string][]string) ([]operator.Job, error)
	OpenWork(ctx context.Context, kind, after string, limit int) ([]operator.Job, error)
	SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error)

	EndCompaction(ctx context.Context, id, reason string) (bool, error)
	CancelDAGRun(ctx context.Context, runID string) (bool, error)
	FailDAGRun(ctx context.Context, runID, code, message string) (bool, error)
	MarkTaskLost(ctx context.Context, taskID, reason string) (domain.TaskStatus, error)
	LoseAgent(ctx context.Context, loopID, reason string) error
}

// Tasks stops background tasks.
type Tasks interface {
	Stop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error)
}

// Schedules ends runs of scheduled tasks, with the chats that they have started.
type Schedules interface {
	CancelRun(ctx context.Context, runID string) (open bool, err error)
	FailRun(ctx context.Context, runID, code, message string) error
}

// Board ends issue runs, with the chats that they have started.
type Board interface {
	CancelAnyRun(ctx context.Context, runID string) (open bool, err error)
	FailRun(ctx context.Context, runID, code, message string) error
}

// Config is what New needs.
type Config struct {
	Engine    Engine
	Store     Store
	Tasks     Tasks
	Schedules Schedules
	Board     Board
}

// Service shows and ends runs.
type Service struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Tasks == nil || cfg.Schedules == nil || cfg.Board == nil {
		return nil, errors.New("operator: the configuration needs Engine, Store, Tasks, Schedules and Board")
	}

	return &Service{cfg}, nil
}

// Runs lists runs, the newest first; with the status lost, open work without a run, by
// kind and id.
func (s *Service) Runs(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error) {
	if q.Status == operator.RunLost {
		return s.lost(ctx, q)
	}

	if runs, next, err = s.cfg.Engine.Runs(ctx, q); err != nil {
		return nil, nil, err
	}

	ids := map[string][]string{}

	for _, run := range runs {
		if kind, id := durable.KindOfWorkflow(run.WorkflowID); id != "" {
			ids[kind] = append(ids[kind], id)
		}
	}

	jobs, err := s.cfg.Store.Jobs(ctx, ids)
	if err != nil {
		return nil, nil, err
	}

	byWorkflow := map[string]*operator.Job{}
	for i := range jobs {
		byWorkflow[jobs[i].WorkflowID] = &jobs[i]
	}

	for i := range runs {
		describe(&runs[i], byWorkflow[runs[i].WorkflowID])
	}

	return runs, next, nil
}

// describe adds to a run what the database knows of its work.
func describe(run *operator.Run, job *operator.Job) {
	run.Work = job
	if job != nil {
		run.OwnerID = job.OwnerID
		if run.SessionID == "" {
			run.SessionID = job.SessionID
		}
	}

	run.Actions = []operator.RunAction{}
	for _, action := range []operator.RunAction{operator.RunCancel, operator.RunForceFail, operator.RunResume} {
		if possible(*run, action) == nil {
			run.Actions = append(run.Actions, action)
		}
	}
}

// possible says why an action cannot be taken; nil: it can.
func possible(run operator.Run, action operator.RunAction) error {
	kind, open := run.Kind, run.Status == "running"
	if subject, _ := durable.KindOfWorkflow(run.WorkflowID); subject == "" {
		kind = "" // as a tick of a schedule, which takes seconds
	}

	work := run.Work != nil && run.Work.Open
	if !open && !work {
		return refused("run_over", "the run is over")
	}

	if !open && run.Status != operator.RunLost {
		return refused("run_over", "the run is over; its work goes on in a newer one")
	}

	if reason := impossible[action][kind]; reason != "" {
		return refused("run_action_impossible", reason)
	}

	switch {
	case action != operator.RunCancel && kind != operator.RunKindFork && work &&
		(run.Work.Status == "queued" || run.Work.Status == "waiting"):
		return refused("run_action_impossible", "the run waits for its turn, and nothing has begun: cancel it, or wait")
	case action == operator.RunResume && !work && kind != operator.RunKindArchive:
		return refused("run_over", "the work is over: there is nothing to resume")
	case action == operator.RunResume && kind == operator.RunKindChat && run.Work.Status == "parked":
		return refused("run_waits_for_answer", "the chat waits for an answer of its user: there is nothing to resume")
	case !open && action == operator.RunCancel && !cancelledInStore[kind]:
		return refused("run_action_impossible", "no workflow is open that could be cancelled: resume the run first, or force it to fail")
	case !open && action == operator.RunForceFail && kind == operator.RunKindChat:
		return refused("run_action_impossible", "no workflow is open that could be closed: resume the run first")
	}

	return nil
}

func refused(code, reason string) error { return domain.Newf(domain.Conflict, code, "%s", reason) }

// cancelledInStore are the kinds whose cancellation is a record that their workflow reads.
var cancelledInStore = map[string]bool{
	operator.RunKindDAG: true, operator.RunKindIssue: true, operator.RunKindSchedule: true, operator.RunKindCompaction: true,
}

// impossible says why runs of a kind cannot be cancelled, failed or resumed.
var impossible = map[operator.RunAction]map[string]string{
	operator.RunCancel: {
		"":                       "the run takes seconds, and ends by itself",
		operator.RunKindReplay:   "a replay is paused or ended by the operations of its session",
		operator.RunKindArchive:  "archiving would be started again: events of chats that ended have to be archived",
		operator.RunKindDeletion: "a session that was deleted cannot be kept",
	},
	operator.RunForceFail: {
		"":                       "the run takes seconds, and ends by itself",
		operator.RunKindReplay:   "a replay is paused or ended by the operations of its session",
		operator.RunKindArchive:  "archiving would be started again: events of chats that ended have to be archived",
		operator.RunKindDeletion: "a session that was deleted cannot be kept",
		operator.RunKindHistory:  "the session is claimed until its files are whole: cancel the run, which leaves the session as it was",
		operator.RunKindImport:   "cancel the run, which leaves nothing behind",
	},
	operator.RunResume: {
		"":                   "the reconciler takes what is due within seconds",
		operator.RunKindFork: "a sub-agent continues with its chat: resume the run of its session",
		operator.RunKindTask: "a command or a background sub-agent that was broken off cannot continue: cancel it",
	},
}

// Cancel ends a run as its owner would; run_not_found, or a conflict with the reason.
func (s *Service) Cancel(ctx context.Context, workflowID string) error {
	run, id, err := s.find(ctx, workflowID, operator.RunCancel)
	if err != nil {
		return err
	}

	switch run.Kind {
	case operator.RunKindTask:
		if run.Work == nil {
			return s.cfg.Engine.Cancel(ctx, workflowID)
		}

		_, err = s.cfg.Tasks.Stop(ctx, run.Work.SessionID, id)
	case operator.RunKindCompaction:
		if _, err = s.cfg.Store.EndCompaction(ctx, id, "cancelled by an administrator"); err == nil {
			err = s.cfg.Engine.Terminate(ctx, workflowID, "", "cancelled by an administrator")
		}
	case operator.RunKindSchedule:
		if _, err = s.cfg.Schedules.CancelRun(ctx, id); err == nil {
			err = s.cfg.Engine.ResumeScheduledRun(ctx, id)
		}
	case operator.RunKindIssue:
		if _, err = s.cfg.Board.CancelAnyRun(ctx, id); err == nil {
			err = s.cfg.Engine.ResumeIssueRun(ctx, id)
		}
	case operator.RunKindDAG:
		if _, err = s.cfg.Store.CancelDAGRun(ctx, id); err == nil {
			err = s.cfg.Engine.ResumeDAGRun(ctx, durable.SolutionOfDAGRun(workflowID), id)
		}
	default:
		return s.cfg.Engine.Cancel(ctx, workflowID)
	}

	return unavailable(err)
}

// ForceFail ends a run that cannot end by itself, with its work as failed.
func (s *Service) ForceFail(ctx context.Context, workflowID, reason string) error {
	run, id, err := s.find(ctx, workflowID, operator.RunForceFail)
	if err != nil {
		return err
	}

	switch run.Kind {
	case operator.RunKindChat, operator.RunKindFork:
		return s.cfg.Engine.ForceFail(ctx, workflowID, reason)
	case operator.RunKindTask:
		err = s.loseTask(ctx, run.Work, id, reason)
	case operator.RunKindCompaction:
		_, err = s.cfg.Store.EndCompaction(ctx, id, reason)
	case operator.RunKindSchedule:
		err = s.cfg.Schedules.FailRun(ctx, id, domain.CodeRunLost, reason)
	case operator.RunKindIssue:
		err = s.cfg.Board.FailRun(ctx, id, domain.CodeRunLost, reason)
	case operator.RunKindDAG:
		_, err = s.cfg.Store.FailDAGRun(ctx, id, domain.CodeRunLost, reason)
	}

	if err == nil {
		err = s.cfg.Engine.Terminate(ctx, workflowID, "", reason)
	}

	if err == nil && run.Kind == operator.RunKindDAG { // a new workflow stops what nodes have started
		err = s.cfg.Engine.ResumeDAGRun(ctx, durable.SolutionOfDAGRun(workflowID), id)
	}

	return unavailable(err)
}

func (s *Service) loseTask(ctx context.Context, work *operator.Job, taskID, reason string) error {
	switch {
	case work == nil:
		return nil
	case work.Detail != "":
		return s.cfg.Store.LoseAgent(ctx, work.Detail, reason)
	}

	_, err := s.cfg.Store.MarkTaskLost(ctx, taskID, reason)

	return err
}

// Resume closes the workflow of a run, if one is open, and starts one that continues from
// the database. What the old one still carries out is fenced off.
func (s *Service) Resume(ctx context.Context, workflowID string) error {
	run, id, err := s.find(ctx, workflowID, operator.RunResume)
	if err != nil {
		return err
	}

	if err := s.cfg.Engine.Terminate(ctx, workflowID, "", "everloop: resumed from the database by an administrator"); err != nil {
		return unavailable(err)
	}

	return unavailable(s.start(ctx, run, id))
}

func (s *Service) start(ctx context.Context, run operator.Run, id string) error {
	work := run.Work
	switch run.Kind {
	case operator.RunKindChat:
		session, err := s.cfg.Store.SessionRun(ctx, "", domain.SessionID(id))
		if err != nil {
			return err
		}

		return s.cfg.Engine.Wake(ctx, session)
	case operator.RunKindReplay:
		return s.cfg.Engine.StartReplay(ctx, domain.SessionID(id), work.OwnerID)
	case operator.RunKindCompaction:
		return s.cfg.Engine.StartCompaction(ctx, domain.CompactionRun{ID: id, SessionID: work.SessionID, OwnerID: work.OwnerID})
	case operator.RunKindDeletion:
		return s.cfg.Engine.StartDeletion(ctx, domain.DeletedSession{SessionID: domain.SessionID(id), OwnerID: work.OwnerID})
	case operator.RunKindHistory:
		return s.cfg.Engine.StartMove(ctx, history.Operation{
			ID: id, SessionID: work.SessionID, OwnerID: work.OwnerID, Kind: domain.HistoryOperationKind(work.Detail),
		})
	case operator.RunKindImport:
		return s.cfg.Engine.StartImport(ctx, transfer.Import{SessionID: domain.SessionID(id), OwnerID: work.OwnerID})
	case operator.RunKindSchedule:
		return s.cfg.Engine.ResumeScheduledRun(ctx, id)
	case operator.RunKindIssue:
		return s.cfg.Engine.ResumeIssueRun(ctx, id)
	case operator.RunKindDAG:
		return s.cfg.Engine.ResumeDAGRun(ctx, durable.SolutionOfDAGRun(run.WorkflowID), id)
	default:
		return s.cfg.Engine.StartArchive(ctx)
	}
}

// find looks at a run and its work, and at whether an action is possible.
func (s *Service) find(ctx context.Context, workflowID string, action operator.RunAction) (run operator.Run, id string, err error) {
	run.WorkflowID, run.Status = workflowID, "running"
	run.Kind, id = durable.KindOfWorkflow(workflowID)

	state, _, err := s.cfg.Engine.Describe(ctx, workflowID, "")
	if err != nil {
		return run, id, unavailable(err)
	}

	if state == domain.RunClosed || state == domain.RunUnknown {
		run.Status = operator.RunLost
	}

	if id != "" {
		jobs, err := s.cfg.Store.Jobs(ctx, map[string][]string{run.Kind: {id}})
		if err != nil {
			return run, id, err
		}

		if i := slices.IndexFunc(jobs, func(j operator.Job) bool { return j.WorkflowID == workflowID }); i >= 0 {
			run.Work = &jobs[i]
		}
	}

	if run.Status == operator.RunLost && (run.Work == nil || !run.Work.Open) &&
		(run.Kind != operator.RunKindArchive || action != operator.RunResume) {
		return run, id, domain.Newf(domain.NotFound, "run_not_found", "no run with the id %s is open", workflowID)
	}

	if run.Kind == operator.RunKindArchive && action == operator.RunResume {
		return run, id, nil
	}

	return run, id, possible(run, action)
}

// unavailable is the error for an engine that cannot be reached.
func unavailable(err error) error {
	if err == nil {
		return nil
	}

	if _, known := errors.AsType[*domain.Error](err); known {
		return err
	}

	return domain.Unavailablef("Temporal", err)
}
