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

// StartAgent stores a background sub-agent as a task and starts its workflow. The sub-agent was
// reserved with its tool call, so that a repeated call returns the same task. Repair repeats a start
// that fails after the commit.
func (s *Service) StartAgent(ctx context.Context, in tools.NewAgentTask) (domain.BackgroundTask, error) {
	run, err := s.AgentRun(ctx, in.ToolCallID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}

	task, err := s.AddTask(ctx, contract.NewTask{
		ID: run.TaskID, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID, Kind: domain.TaskAgent, Title: in.Title,
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// The task is stored: it must start even if the caller disconnects.
	if err := s.deps.Runs.StartAgent(context.WithoutCancel(ctx), run); err != nil {
		s.deps.Logger.Warn("failed to start a background sub-agent, retrying",
			"task_id", run.TaskID, "session_id", in.SessionID, "error", err)
	}

	return task, nil
}

// LoseAgent ends a background sub-agent whose workflow is closed.
func (s *Service) LoseAgent(ctx context.Context, loopID, reason string) error {
	_, err := s.deps.Chats.EndFork(ctx, domain.ForkEnd{LoopID: loopID, Status: domain.CallError, Reason: reason, Lost: true}, 0, nil)
	return err
}

// agentText returns the text of a sub-agent so far, as the output of its task.
func (s *Service) agentText(ctx context.Context, task domain.BackgroundTask, tail int) (domain.TaskOutput, error) {
	var text domain.ForkText

	if task.ToolCallID != nil {
		var err error
		if text, err = s.deps.Chats.ForkText(ctx, *task.ToolCallID); err != nil {
			return domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}, err
		}
	}

	all := text.All
	if all != "" {
		all += "\n"
	}

	return commands.ReadTaskLog(ctx, strings.NewReader(all), tail)
}

// repairAgents starts background sub-agents whose start was lost, repeats their stops, and ends those
// whose workflow is closed.
func (s *Service) repairAgents(ctx context.Context) error {
	var failed []error

	for after := ""; ; {
		agents, err := s.RunningAgents(ctx, unclaimedAfter, after, repairPage)
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
		if err := s.deps.Runs.CancelTask(ctx, agent.Run.TaskID); err != nil {
			return err
		}
	}

	state, cause, err := s.deps.Runs.DescribeTask(ctx, agent.Run.TaskID)

	switch {
	case err != nil:
		return err
	case state == domain.RunUnknown && !agent.Begun && !agent.Stop:
		if _, due := s.starts.Try(agent.Run.TaskID); due {
			return s.deps.Runs.StartAgent(ctx, agent.Run)
		}
	case state == domain.RunClosed || state == domain.RunUnknown: // a workflow that was closed before its start is not repeated
		return s.LoseAgent(ctx, agent.Run.LoopID, cause)
	}

	return nil
}
