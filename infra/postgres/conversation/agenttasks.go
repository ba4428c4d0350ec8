package conversation

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const agentRun = `
	SELECT l.session_id, l.chat_id, l.id, l.max_steps, l.time_limit_s, l.task_id, s.owner_id
	FROM   loops l JOIN sessions s ON s.id = l.session_id`

func scanAgentRun(row pgx.CollectableRow) (run contract.AgentRun, err error) {
	in := &run.ForkInput
	return run, row.Scan(&in.SessionID, &in.ChatID, &in.LoopID, &in.MaxSteps, &in.Seconds, &in.TaskID, &run.OwnerID)
}

// AgentRun returns what is needed to start the run of a sub-agent that was
// reserved to work in the background.
func (db *Base) AgentRun(ctx context.Context, loopID string) (contract.AgentRun, error) {
	rows, _ := db.Pool.Query(ctx, agentRun+` WHERE l.id = $1 AND l.background`, loopID)

	run, err := pgx.CollectExactlyOneRow(rows, scanAgentRun)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, forkNotFound(loopID)
	}

	return run, pg.Fault("read sub-agent", err)
}

// RunningAgents returns the background sub-agents whose tasks have run for longer than age,
// at most limit, in the order of their tasks' ids and after one.
func (db *Base) RunningAgents(ctx context.Context, age time.Duration, after string, limit int) ([]contract.RunningAgent, error) {
	rows, _ := db.Pool.Query(ctx, `
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

// LoseAgent ends a background sub-agent whose run is gone.
func (s *Store) LoseAgent(ctx context.Context, loopID, reason string) error {
	_, err := s.EndFork(ctx, domain.ForkEnd{LoopID: loopID, Status: domain.CallError, Reason: reason, Lost: true}, 0, nil)
	return err
}
