package work

import (
	"context"

	"everloop/domain"
)

// CheckSubAgents looks at the runs of sub-agents that should be at work and show no
// progress, and terminates those that are stuck: the run that waits for one sees its end
// and continues without it. A run that is closed or unknown is left alone: what it belongs
// to notices that.
func (r *Reconciler) CheckSubAgents(ctx context.Context) error {
	return r.subAgents.each(ctx, maxConcurrent, func(ctx context.Context, agent domain.OpenSubAgent) error {
		look, err := r.runs.LookAtSubAgent(ctx, agent)
		if err != nil || look.State != domain.RunStuck || !confirmed(r.suspects, look) {
			return err
		}

		r.logger.Warn("terminating the stuck run of a sub-agent", "session_id", agent.SessionID, "chat_id", agent.ChatID,
			"loop_id", agent.LoopID, "task_id", agent.TaskID, "run_id", look.RunID, "cause", look.Cause)
		r.found("stuck_sub_agent")

		return r.runs.TerminateSubAgent(ctx, agent, look.RunID, "everloop: "+look.Cause)
	})
}
