package temporal

import (
	"cmp"
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// kindSchedule is the kind of runs of scheduled tasks, for operators.
const kindSchedule = "schedule"

// scheduleCatchup is how long after a tick Temporal still acts on it. Later ones are
// found by the reconciler: the task's row knows which ticks were not taken.
const scheduleCatchup = time.Minute

// StartScheduledRun starts the workflow that carries a run of a scheduled task.
func (r Runs) StartScheduledRun(ctx context.Context, runID string) error {
	return r.start(ctx, run{
		id: durable.ScheduledRunWorkflowID(runID), kind: kindSchedule, work: runID, title: "Run of a scheduled task",
		workflow: contract.WorkflowScheduledRun, input: contract.ScheduledRunInput{RunID: runID},
	})
}

// ResumeScheduledRun starts the workflow of a run if it is gone, and has it look at its
// chat.
func (r Runs) ResumeScheduledRun(ctx context.Context, runID string) error {
	if err := r.StartScheduledRun(ctx, runID); err != nil {
		return err
	}

	_, err := r.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: durable.ScheduledRunWorkflowID(runID)})

	return err
}

// NotifyWaiter signals a run that the chat which it waits for has ended; false: the
// run is gone.
func (r Runs) NotifyWaiter(ctx context.Context, waiter domain.ChatWaiter) (signalled bool, err error) {
	err = r.Client.SignalWorkflow(ctx, waiter.WorkflowID, "", contract.ChatEnded.Name, contract.EndedChat{ChatID: waiter.ChatID})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return false, nil
	}

	return err == nil, err
}

// SyncSchedule makes the schedule of a task what it must be. It fires at the times that
// it is given, and at no others: Temporal's calendars know another rule for clock
// changes. It lets runs overlap, because the policy is applied where ticks are recorded.
func (r Runs) SyncSchedule(ctx context.Context, in schedule.Sync) error {
	handle := r.Client.ScheduleClient().GetHandle(ctx, durable.ScheduleID(in.TaskID))
	if in.Deleted {
		return unlessGone(handle.Delete(ctx))
	}

	wanted := r.schedule(in)

	err := handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			return &client.ScheduleUpdate{Schedule: &wanted}, nil
		},
	})
	if _, missing := errors.AsType[*serviceerror.NotFound](err); !missing {
		return err
	}

	_, err = r.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: durable.ScheduleID(in.TaskID), Spec: *wanted.Spec, Action: wanted.Action, Overlap: wanted.Policy.Overlap,
		CatchupWindow: wanted.Policy.CatchupWindow, Paused: wanted.State.Paused, Note: wanted.State.Note,
	})

	return err
}

func (r Runs) schedule(in schedule.Sync) client.Schedule {
	spec := &client.ScheduleSpec{}

	for _, at := range in.Times {
		at = at.UTC()
		spec.Calendars = append(spec.Calendars, client.ScheduleCalendarSpec{
			Year: only(at.Year()), Month: only(int(at.Month())), DayOfMonth: only(at.Day()),
			Hour: only(at.Hour()), Minute: only(at.Minute()), Second: only(at.Second()),
		})
	}

	note := "disabled by its owner or by failures"
	if in.Enabled {
		note = ""
	}

	return client.Schedule{
		Spec: spec,
		Action: &client.ScheduleWorkflowAction{
			ID: durable.ScheduleTickWorkflowID(in.TaskID), Workflow: contract.WorkflowScheduleTick,
			Args: []any{contract.ScheduleTickInput{TaskID: in.TaskID}}, TaskQueue: cmp.Or(r.Queue, durable.Queue),
			StaticSummary: "Tick of a scheduled task",
			TypedSearchAttributes: temporal.NewSearchAttributes(
				durable.OwnerID.ValueSet(in.OwnerID), durable.Kind.ValueSet(kindSchedule)),
		},
		Policy: &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL, CatchupWindow: scheduleCatchup},
		State:  &client.ScheduleState{Paused: !in.Enabled, Note: note},
	}
}

func only(value int) []client.ScheduleRange { return []client.ScheduleRange{{Start: value}} }

func unlessGone(err error) error {
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}

	return err
}
