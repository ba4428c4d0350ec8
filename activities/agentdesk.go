package activities

import (
	"context"
	"strings"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
)

// StartAgent makes a background sub-agent durable as a task and starts its run.
// It was reserved with its call, from which its id comes, so that the same call
// again gives the same task; a start that fails after the commit is made good by
// Sweep.
func (d *TaskDesk) StartAgent(ctx context.Context, in tools.NewAgentTask) (domain.BackgroundTask, error) {
	run, err := d.Records.AgentRun(ctx, in.ToolCallID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	task, err := d.Records.AddTask(ctx, contract.NewTask{
		ID: run.TaskID, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID, Kind: domain.TaskAgent, Title: in.Title,
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// It is promised now: the caller going away must not keep it from starting.
	if err := d.Runs.StartAgent(context.WithoutCancel(ctx), run); err != nil {
		d.Logger.Warn("a background sub-agent is not started yet; the sweep will", "task_id", run.TaskID, "session_id", in.SessionID, "error", err)
	}
	return task, nil
}

// said is what a sub-agent has said so far, as the output of its task.
func (d *TaskDesk) said(ctx context.Context, task domain.BackgroundTask, tail int) (domain.TaskOutput, error) {
	var text domain.ForkText
	if task.ToolCallID != nil {
		var err error
		if text, err = d.Records.ForkText(ctx, *task.ToolCallID); err != nil {
			return domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}, err
		}
	}
	all := text.All
	if all != "" {
		all += "\n"
	}
	return tools.ReadTaskLog(strings.NewReader(all), tail)
}

// sweepAgents starts background sub-agents whose start was lost, repeats stops
// that were not heard, and ends those whose run is gone.
func (d *TaskDesk) sweepAgents(ctx context.Context) error {
	reserved, stopping, open, err := d.Records.RunningAgents(ctx, unclaimedAfter)
	if err != nil {
		return err
	}
	for _, run := range reserved {
		if err := d.Runs.StartAgent(ctx, run); err != nil {
			return err
		}
	}
	for _, run := range stopping {
		if err := d.Runs.CancelTask(ctx, run.TaskID); err != nil {
			return err
		}
	}
	for _, run := range open {
		state, cause, err := d.Runs.DescribeTask(ctx, run.TaskID)
		if err != nil {
			return err
		}
		if state != domain.RunClosed && state != domain.RunUnknown {
			continue
		}
		if err := d.Records.LoseAgent(ctx, run.LoopID, cause); err != nil {
			return err
		}
	}
	return nil
}
