package work

import (
	"context"
	"errors"
	"slices"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

// Operator shows administrators the runs of every kind of work, why they wait and what can
// be done with them, and ends or resumes them.
type Operator struct {
	store  *Store
	runs   temporal.Runs
	engine temporal.Operator
	kinds  map[string]Kind
}

// NewOperator returns an operator of all kinds of work.
func NewOperator(store *Store, runs temporal.Runs, engine temporal.Operator, kinds []Kind) *Operator {
	return &Operator{store: store, runs: runs, engine: engine, kinds: byName(kinds)}
}

// Runs lists runs, the newest first; with the status lost, open work without a run, by
// kind and id.
func (o *Operator) Runs(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error) {
	if q.Status == operator.RunLost {
		return o.lost(ctx, q)
	}

	if runs, next, err = o.engine.Runs(ctx, q); err != nil {
		return nil, nil, err
	}

	ids := map[string][]string{}

	for _, run := range runs {
		if kind, id := durable.KindOfWorkflow(run.WorkflowID); id != "" {
			ids[kind] = append(ids[kind], id)
		}
	}

	jobs, err := o.store.Jobs(ctx, ids)
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

// Cancel ends a run as its owner would; run_not_found, or a conflict with the reason.
func (o *Operator) Cancel(ctx context.Context, workflowID string) error {
	run, id, err := o.find(ctx, workflowID, operator.RunCancel)
	if err != nil {
		return err
	}

	if kind := o.kinds[run.Kind]; kind.Cancel != nil && run.Work != nil {
		return unavailable(kind.Cancel(ctx, Item{ID: id, Job: *run.Work}))
	}

	return o.engine.Cancel(ctx, workflowID)
}

// ForceFail ends a run that cannot end by itself, with its work as failed.
func (o *Operator) ForceFail(ctx context.Context, workflowID, reason string) error {
	run, id, err := o.find(ctx, workflowID, operator.RunForceFail)
	if err != nil {
		return err
	}

	kind := o.kinds[run.Kind]
	if kind.Fail == nil {
		return o.engine.ForceFail(ctx, workflowID, reason)
	}

	if run.Work == nil {
		return unavailable(o.runs.Terminate(ctx, workflowID, "", reason))
	}

	item := Item{ID: id, Job: *run.Work}

	err = kind.Fail(ctx, item, reason)
	if err == nil {
		err = o.runs.Terminate(ctx, workflowID, "", reason)
	}

	if err == nil && kind.Cleans {
		err = kind.Start(ctx, item)
	}

	return unavailable(err)
}

// Resume closes the workflow of a run, if one is open, and starts one that continues from
// the database. What the old one still carries out is fenced off.
func (o *Operator) Resume(ctx context.Context, workflowID string) error {
	run, id, err := o.find(ctx, workflowID, operator.RunResume)
	if err != nil {
		return err
	}

	if err := o.runs.Terminate(ctx, workflowID, "", "everloop: resumed from the database by an administrator"); err != nil {
		return unavailable(err)
	}

	item := Item{ID: id}
	if run.Work != nil {
		item.Job = *run.Work
	}

	return unavailable(o.kinds[run.Kind].Start(ctx, item))
}

// find looks at a run and its work, and at whether an action is possible.
func (o *Operator) find(ctx context.Context, workflowID string, action operator.RunAction) (run operator.Run, id string, err error) {
	run.WorkflowID, run.Status = workflowID, "running"
	run.Kind, id = durable.KindOfWorkflow(workflowID)

	state, _, err := o.runs.Describe(ctx, workflowID, "")
	if err != nil {
		return run, id, unavailable(err)
	}

	if state == domain.RunClosed || state == domain.RunUnknown {
		run.Status = operator.RunLost
	}

	if id != "" {
		jobs, err := o.store.Jobs(ctx, map[string][]string{run.Kind: {id}})
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
