package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
)

const agentRun = `
	SELECT l.session_id, l.chat_id, l.id, l.max_steps, l.time_limit_s, l.task_id, s.owner_id
	FROM   loops l JOIN sessions s ON s.id = l.session_id`

func scanAgentRun(row pgx.CollectableRow) (run contract.AgentRun, err error) {
	in := &run.ForkInput
	return run, row.Scan(&in.SessionID, &in.ChatID, &in.LoopID, &in.MaxSteps, &in.Seconds, &in.TaskID, &run.OwnerID)
}

// AgentRun returns the input of the workflow of a reserved background sub-agent.
func (s *Store) AgentRun(ctx context.Context, loopID string) (contract.AgentRun, error) {
	rows, _ := s.db.Pool.Query(ctx, agentRun+` WHERE l.id = $1 AND l.background`, loopID)

	run, err := pgx.CollectExactlyOneRow(rows, scanAgentRun)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, conversation.ForkNotFound(loopID)
	}

	return run, pg.Fault("read sub-agent", err)
}

// RunningAgents returns the background sub-agents whose tasks have run for longer than age: at most
// limit, ordered by the ids of their tasks, with ids after the given one.
func (s *Store) RunningAgents(ctx context.Context, age time.Duration, after string, limit int) ([]contract.RunningAgent, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT l.session_id, l.chat_id, l.id, l.max_steps, l.time_limit_s, l.task_id, s.owner_id, b.stop_requested, l.state <> 'reserved'
		FROM   background_tasks b JOIN loops l ON l.task_id = b.id AND l.background JOIN sessions s ON s.id = b.session_id
		WHERE  b.status = 'running' AND b.kind = 'agent' AND b.started_at < now() - $1::interval AND b.id > $2
		ORDER  BY b.id LIMIT $3`, age, after, limit)

	agents, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (agent contract.RunningAgent, err error) {
		in := &agent.Run.ForkInput

		return agent, row.Scan(&in.SessionID, &in.ChatID, &in.LoopID, &in.MaxSteps, &in.Seconds, &in.TaskID, &agent.Run.OwnerID,
			&agent.Stop, &agent.Begun)
	})

	return agents, pg.Fault("list background sub-agents", err)
}
