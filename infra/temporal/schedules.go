package temporal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// kindSchedule is the kind of runs of scheduled tasks, for operators.
const kindSchedule = "schedule"

// schedulerWorkflow is the prefix of the workflow ids of Temporal's Schedules.
const schedulerWorkflow = "temporal-sys-scheduler:"

// requester names the service in the histories of Schedules.
const requester = "everloop"

// pushAttempts is the maximum number of writes of a Schedule that is changed in Temporal
// concurrently.
const pushAttempts = 3

var errScheduleChanged = errors.New("the Schedule was changed in Temporal at the same time")

// ResumeScheduledRun starts the workflow of a scheduled run if it is not open, and otherwise
// signals it to check its chat.
func (r Runs) ResumeScheduledRun(ctx context.Context, runID string) error {
	err := r.start(ctx, run{
		id: durable.ScheduledRunWorkflowID(runID), kind: kindSchedule, work: runID, title: scheduledRunTitle,
		workflow: contract.WorkflowScheduledRun, input: contract.ScheduledRunInput{RunID: runID},
	})
	if err != nil {
		return err
	}

	_, err = r.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: durable.ScheduledRunWorkflowID(runID)})

	return err
}

// CancelScheduledRun requests the end of a run's workflow: it stops its chat and writes its
// record.
func (r Runs) CancelScheduledRun(ctx context.Context, runID string) error {
	return unlessGone(r.Client.CancelWorkflow(ctx, durable.ScheduledRunWorkflowID(runID), ""))
}

// NotifyWaiter signals a run that its awaited chat has ended; false: the run has closed.
func (r Runs) NotifyWaiter(ctx context.Context, waiter domain.ChatWaiter) (signalled bool, err error) {
	err = r.Client.SignalWorkflow(ctx, waiter.WorkflowID, "", contract.ChatEnded.Name, contract.EndedChat{ChatID: waiter.ChatID})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return false, nil
	}

	return err == nil, err
}

func (r Runs) namespace() string { return cmp.Or(r.Namespace, defaultNamespace) }

// DescribeSchedule returns the Schedule of a task. It reflects all earlier writes.
func (r Runs) DescribeSchedule(ctx context.Context, taskID string) (schedule.Observed, bool, error) {
	described, err := r.describeSchedule(ctx, taskID)
	if err != nil || described == nil {
		return schedule.Observed{}, false, err
	}

	return observed(taskID, described), true, nil
}

func (r Runs) describeSchedule(ctx context.Context, taskID string) (*workflowservice.DescribeScheduleResponse, error) {
	described, err := r.Client.WorkflowService().DescribeSchedule(ctx, &workflowservice.DescribeScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(taskID),
	})
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil
	}

	return described, err
}

// wantedSchedule is the desired state of a task's Schedule.
type wantedSchedule struct {
	task schedule.Task
	plan *cron.Plan // when it is due; nil: unchanged, because it was edited in Temporal
	note string     // why it is paused
}

// PushSchedule creates or updates the Schedule of a task, and returns it. Without a plan its
// times do not change. A concurrent change in Temporal is not overwritten unseen: the Schedule is
// read again.
func (r Runs) PushSchedule(ctx context.Context, task schedule.Task, plan *cron.Plan, note string) (schedule.Observed, error) {
	wanted := wantedSchedule{task, plan, note}

	for range pushAttempts {
		described, err := r.describeSchedule(ctx, wanted.task.ID)
		if err != nil {
			return schedule.Observed{}, err
		}

		if described == nil {
			if err := r.createSchedule(ctx, wanted); err != nil {
				return schedule.Observed{}, err
			}
		} else if err := r.updateSchedule(ctx, wanted, described); err != nil {
			return schedule.Observed{}, err
		}

		after, err := r.describeSchedule(ctx, wanted.task.ID)
		if err != nil {
			return schedule.Observed{}, err
		}

		if now := observed(wanted.task.ID, after); after != nil && fits(now, wanted) {
			return now, nil
		}
	}

	return schedule.Observed{}, errScheduleChanged
}

// fits reports whether a Schedule equals the desired state. Temporal returns no error for an
// update that it rejects because of another change.
func fits(now schedule.Observed, wanted wantedSchedule) bool {
	return now.Paused == !wanted.task.Enabled && now.Overlap == wanted.task.Overlap && now.JitterS == wanted.task.JitterS &&
		now.Timezone == wanted.task.Timezone && (wanted.plan == nil || now.Due == due(spec(wanted, &schedulepb.ScheduleSpec{})))
}

func (r Runs) createSchedule(ctx context.Context, wanted wantedSchedule) error {
	made := &schedulepb.Schedule{Spec: spec(wanted, &schedulepb.ScheduleSpec{})}
	if err := r.fill(made, wanted); err != nil {
		return err
	}

	_, err := r.Client.WorkflowService().CreateSchedule(ctx, &workflowservice.CreateScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(wanted.task.ID), Schedule: made,
		Identity: requester, RequestId: domain.NewID(), SearchAttributes: attributesOf(wanted.task).Encode(),
	})
	if _, exists := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); exists {
		return nil
	}

	if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); exists {
		return nil
	}

	return err
}

func (r Runs) updateSchedule(ctx context.Context, wanted wantedSchedule, was *workflowservice.DescribeScheduleResponse) error {
	made := was.GetSchedule()

	made.Spec = spec(wanted, made.GetSpec())
	if err := r.fill(made, wanted); err != nil {
		return err
	}

	_, err := r.Client.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(wanted.task.ID), Schedule: made,
		ConflictToken: was.GetConflictToken(), Identity: requester, RequestId: domain.NewID(),
	})

	return err
}

var overlaps = map[schedule.Overlap]enumspb.ScheduleOverlapPolicy{
	schedule.OverlapSkip:        enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
	schedule.OverlapBufferOne:   enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	schedule.OverlapBufferAll:   enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	schedule.OverlapCancelOther: enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
	schedule.OverlapAllowAll:    enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

// scheduledRunTitle is the summary of runs for operators.
const scheduledRunTitle = "Run of a scheduled task"

// fill sets all fields of a Schedule except its times.
func (r Runs) fill(made *schedulepb.Schedule, wanted wantedSchedule) error {
	task, data := wanted.task, converter.GetDefaultDataConverter()

	input, err := data.ToPayloads(contract.ScheduledRunInput{})
	if err != nil {
		return err
	}

	summary, err := data.ToPayload(scheduledRunTitle)
	if err != nil {
		return err
	}

	details, err := data.ToPayload(r.Details(attributesOf(task)))
	if err != nil {
		return err
	}

	made.Policies = &schedulepb.SchedulePolicies{
		OverlapPolicy: overlaps[task.Overlap], CatchupWindow: durationpb.New(time.Duration(task.CatchupWindowS) * time.Second),
	}
	made.State = &schedulepb.ScheduleState{Paused: !task.Enabled, Notes: wanted.note}
	made.Action = &schedulepb.ScheduleAction{Action: &schedulepb.ScheduleAction_StartWorkflow{
		StartWorkflow: &workflowpb.NewWorkflowExecutionInfo{
			WorkflowId:       durable.ScheduledRunWorkflowID(task.ID),
			WorkflowType:     &commonpb.WorkflowType{Name: contract.WorkflowScheduledRun},
			TaskQueue:        &taskqueuepb.TaskQueue{Name: cmp.Or(r.Queue, durable.Queue), Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
			Input:            input,
			SearchAttributes: attributesOf(task).Encode(),
			UserMetadata:     &sdkpb.UserMetadata{Summary: summary, Details: details},
		},
	}}

	return nil
}

func attributesOf(task schedule.Task) durable.Attributes {
	made := durable.Attributes{OwnerID: task.OwnerID, Kind: kindSchedule, ParentRun: durable.TaskParent(task.ID)}
	if task.SolutionID != nil {
		made.SolutionID = *task.SolutionID
	}

	return made
}

// spec returns the desired times of a Schedule, based on the previous ones.
func spec(wanted wantedSchedule, was *schedulepb.ScheduleSpec) *schedulepb.ScheduleSpec {
	task := wanted.task

	made := proto.CloneOf(was)
	if plan := wanted.plan; plan != nil {
		made = PlanSpec(*plan)
		made.StartTime = was.GetStartTime()
	}

	made.TimezoneName, made.Jitter, made.EndTime = task.Timezone, durationpb.New(time.Duration(task.JitterS)*time.Second), nil
	if task.ExpiresAt != nil { // Temporal includes its end
		made.EndTime = timestamppb.New(task.ExpiresAt.Add(-time.Nanosecond))
	}

	return made
}

// PlanSpec returns the calendars of a plan. An instant is an interval as long as the Unix time:
// it is due then, and not again in practice.
func PlanSpec(plan cron.Plan) *schedulepb.ScheduleSpec {
	made := &schedulepb.ScheduleSpec{}

	for _, c := range plan.Calendars {
		made.StructuredCalendar = append(made.StructuredCalendar, calendarSpec(c))
	}

	for _, c := range plan.Excluded {
		made.ExcludeStructuredCalendar = append(made.ExcludeStructuredCalendar, calendarSpec(c))
	}

	for _, at := range plan.Instants {
		made.Interval = append(made.Interval, &schedulepb.IntervalSpec{
			Interval: durationpb.New(time.Duration(at.Unix()) * time.Second), Phase: durationpb.New(0),
		})
	}

	return made
}

func calendarSpec(c cron.Calendar) *schedulepb.StructuredCalendarSpec {
	return &schedulepb.StructuredCalendarSpec{
		Second: []*schedulepb.Range{{Start: 0, End: 0, Step: 1}}, Minute: rangesOf(c.Minutes), Hour: rangesOf(c.Hours),
		DayOfMonth: rangesOf(c.Days), Month: rangesOf(c.Months), Year: rangesOf(c.Years), DayOfWeek: rangesOf(c.Weekdays),
	}
}

func rangesOf(list []cron.Range) (made []*schedulepb.Range) {
	for _, r := range list {
		made = append(made, &schedulepb.Range{Start: int32(r.Start), End: int32(r.End), Step: int32(r.Step)})
	}

	return made
}

func planRanges(list []*schedulepb.Range) (made []cron.Range) {
	for _, r := range list {
		made = append(made, cron.Range{Start: int(r.GetStart()), End: int(r.GetEnd()), Step: int(r.GetStep())})
	}

	return made
}

// due identifies the calendars, intervals and exclusions of a Schedule.
func due(spec *schedulepb.ScheduleSpec) string {
	only := &schedulepb.ScheduleSpec{
		StructuredCalendar: spec.GetStructuredCalendar(), ExcludeStructuredCalendar: spec.GetExcludeStructuredCalendar(),
		Interval: spec.GetInterval(),
	}

	return digest(only)
}

func digest(message proto.Message) string {
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(message) // of decoded fields
	sum := sha256.Sum256(raw)

	return hex.EncodeToString(sum[:16])
}

// observed converts the description of a Schedule.
func observed(taskID string, d *workflowservice.DescribeScheduleResponse) schedule.Observed {
	spec, policies := d.GetSchedule().GetSpec(), d.GetSchedule().GetPolicies()

	now := schedule.Observed{
		Paused: d.GetSchedule().GetState().GetPaused(), Note: d.GetSchedule().GetState().GetNotes(),
		Overlap: schedule.OverlapSkip, CatchupWindowS: int(policies.GetCatchupWindow().AsDuration() / time.Second),
		JitterS: int(spec.GetJitter().AsDuration() / time.Second), Timezone: cmp.Or(spec.GetTimezoneName(), "UTC"),
		Due: due(spec), Expression: expression(spec), Buffered: int(d.GetInfo().GetBufferSize()),
	}

	if policies.GetOverlapPolicy() == enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER {
		now.Overlap = schedule.OverlapCancelOther
	}

	for overlap, policy := range overlaps {
		if policy == policies.GetOverlapPolicy() {
			now.Overlap = overlap
		}
	}

	if end := spec.GetEndTime(); end != nil {
		at := end.AsTime().Add(time.Nanosecond)
		now.ExpiresAt = &at
	}

	for _, at := range d.GetInfo().GetFutureActionTimes() {
		now.Next = append(now.Next, at.AsTime())
	}

	prefix := durable.ScheduledRunWorkflowID("")
	for _, action := range d.GetInfo().GetRecentActions() {
		id := strings.TrimPrefix(action.GetStartWorkflowResult().GetWorkflowId(), prefix)
		now.Actions = append(now.Actions, schedule.Action{RunID: id, Due: action.GetScheduleTime().AsTime()})
	}

	return now
}

// expression returns the cron expression of a Schedule with exactly one calendar and nothing
// else; empty: other Schedules.
func expression(spec *schedulepb.ScheduleSpec) string {
	if len(spec.GetStructuredCalendar()) != 1 || len(spec.GetExcludeStructuredCalendar())+len(spec.GetInterval()) > 0 {
		return ""
	}

	c := spec.GetStructuredCalendar()[0]
	if onTheMinute := slices.EqualFunc(c.GetSecond(), []int32{0}, func(r *schedulepb.Range, want int32) bool {
		return r.GetStart() == want && r.GetEnd() == want
	}); !onTheMinute {
		return ""
	}

	text, ok := cron.Calendar{
		Minutes: planRanges(c.GetMinute()), Hours: planRanges(c.GetHour()), Days: planRanges(c.GetDayOfMonth()),
		Months: planRanges(c.GetMonth()), Weekdays: planRanges(c.GetDayOfWeek()), Years: planRanges(c.GetYear()),
	}.Expression()
	if !ok {
		return ""
	}

	return text
}

// TriggerSchedule triggers a run of a task's Schedule for a nominal time, with its overlap
// policy.
func (r Runs) TriggerSchedule(ctx context.Context, taskID string, nominal time.Time) error {
	_, err := r.Client.WorkflowService().PatchSchedule(ctx, &workflowservice.PatchScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(taskID), Identity: requester, RequestId: schedule.RunID(taskID, nominal),
		Patch: &schedulepb.SchedulePatch{
			TriggerImmediately: &schedulepb.TriggerImmediatelyRequest{ScheduledTime: timestamppb.New(nominal)},
		},
	})

	return err
}

// DeleteSchedule deletes the Schedule of a task. Its open runs continue.
func (r Runs) DeleteSchedule(ctx context.Context, taskID string) error {
	_, err := r.Client.WorkflowService().DeleteSchedule(ctx, &workflowservice.DeleteScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(taskID), Identity: requester,
	})

	return unlessGone(err)
}

// MissingSchedule returns why Temporal has no description of a task's Schedule.
func (r Runs) MissingSchedule(ctx context.Context, taskID string) (schedule.Missing, error) {
	d, err := r.Client.DescribeWorkflowExecution(ctx, schedulerWorkflow+durable.ScheduleID(taskID), "")
	if _, lost := errors.AsType[*serviceerror.NotFound](err); lost {
		return schedule.MissingLost, nil
	}

	if err != nil {
		return "", err
	}

	if d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		return schedule.MissingDeleted, nil
	}

	return schedule.MissingFinished, nil
}

// ListSchedules returns a page of the Schedules of tasks, and the token of the next page; empty:
// the last page. The list lags by some hundred milliseconds.
func (r Runs) ListSchedules(ctx context.Context, token []byte, size int) (page []schedule.Listed, next []byte, err error) {
	listed, err := r.Client.WorkflowService().ListSchedules(ctx, &workflowservice.ListSchedulesRequest{
		Namespace: r.namespace(), MaximumPageSize: int32(size), NextPageToken: token,
	})
	if err != nil {
		return nil, nil, err
	}

	prefix := durable.ScheduleID("")
	for _, entry := range listed.GetSchedules() {
		if id, ours := strings.CutPrefix(entry.GetScheduleId(), prefix); ours {
			page = append(page, schedule.Listed{TaskID: id, State: digest(entry.GetInfo())})
		}
	}

	return page, bytes.Clone(listed.GetNextPageToken()), nil
}

// BackfillSchedule runs the ticks of a task's Schedule from one time to another, one after the
// other.
func (r Runs) BackfillSchedule(ctx context.Context, taskID string, from, to time.Time) error {
	_, err := r.Client.WorkflowService().PatchSchedule(ctx, &workflowservice.PatchScheduleRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(taskID), Identity: requester, RequestId: domain.NewID(),
		Patch: &schedulepb.SchedulePatch{BackfillRequest: []*schedulepb.BackfillRequest{{
			StartTime: timestamppb.New(from), EndTime: timestamppb.New(to), OverlapPolicy: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
		}}},
	})

	return err
}

// MatchingTimes returns the times, with jitter, at which a Schedule that was edited in Temporal
// is due between from and to: at most 1,000.
func (r Runs) MatchingTimes(ctx context.Context, taskID string, from, to time.Time) (times []time.Time, err error) {
	listed, err := r.Client.WorkflowService().ListScheduleMatchingTimes(ctx, &workflowservice.ListScheduleMatchingTimesRequest{
		Namespace: r.namespace(), ScheduleId: durable.ScheduleID(taskID), StartTime: timestamppb.New(from), EndTime: timestamppb.New(to),
	})
	for _, at := range listed.GetStartTime() {
		times = append(times, at.AsTime())
	}

	return times, err
}

func unlessGone(err error) error {
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}

	return err
}
