package tasks

import (
	"context"
	"errors"
	"strings"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/commands"
	"everloop/domain"
)

// StartAgent makes a background sub-agent durable as a task and starts its run.
// It was reserved with its call, from which its id comes, so that the same call
// again gives the same task; a start that fails after the commit is retried by
// Repair.
func (s *Service) StartAgent(ctx context.Context, in tools.NewAgentTask) (domain.BackgroundTask, error) {
	run, err := s.cfg.Store.AgentRun(ctx, in.ToolCallID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}

	task, err := s.cfg.Store.AddTask(ctx, contract.NewTask{
		ID: run.TaskID, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID, Kind: domain.TaskAgent, Title: in.Title,
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// It is durable now: a caller that disconnects must not keep it from starting.
	if err := s.cfg.Runs.StartAgent(context.WithoutCancel(ctx), run); err != nil {
		s.cfg.Logger.Warn(
			"failed to start a background sub-agent, retrying",
			"task_id",
			run.TaskID,
			"session_id",
			in.SessionID,
			"error",
			err,
		)
	}

	return task, nil
}

// said returns the text of a sub-agent so far, as the output of its task.
func (s *Service) said(ctx context.Context, task domain.BackgroundTask, tail int) (domain.TaskOutput, error) {
	var text domain.ForkText

	if task.ToolCallID != nil {
		var err error
		if text, err = s.cfg.Store.ForkText(ctx, *task.ToolCallID); err != nil {
			return domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}, err
		}
	}

	all := text.All
	if all != "" {
		all += "\n"
	}

	return commands.ReadTaskLog(ctx, strings.NewReader(all), tail)
}

// repairAgents starts background sub-agents whose start was lost, repeats stops
// that did not arrive, and ends those whose run is gone.
func (s *Service) repairAgents(ctx context.Context) error {
	var failed []error

	for after := ""; ; {
		agents, err := s.cfg.Store.RunningAgents(ctx, unclaimedAfter, after, repairPage)
		failed = append(failed, err)

		for _, agent := range agents {
			failed = append(failed, s.repairAgent(ctx, agent))
			after = agent.Run.TaskID
		}

		if len(agents) < repairPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

func (s *Service) repairAgent(ctx context.Context, agent contract.RunningAgent) error {
	if agent.Stop {
		if err := s.cfg.Runs.CancelTask(ctx, agent.Run.TaskID); err != nil {
			return err
		}
	}

	state, cause, err := s.cfg.Runs.DescribeTask(ctx, agent.Run.TaskID)

	switch {
	case err != nil:
		return err
	case state == domain.RunUnknown && !agent.Begun && !agent.Stop:
		if _, due := s.starts.Try(agent.Run.TaskID); due {
			return s.cfg.Runs.StartAgent(ctx, agent.Run)
		}
	case state == domain.RunClosed || state == domain.RunUnknown: // one that was closed before it started is not tried again
		return s.cfg.Store.LoseAgent(ctx, agent.Run.LoopID, cause)
	}

	return nil
}
