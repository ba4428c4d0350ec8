package dagruns

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// TakeNode implements contract.TakeDAGNode. A second call returns what the first one wrote.
func (s *Store) TakeNode(ctx context.Context, in contract.DAGAttempt) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		unit, err := s.unitOf(ctx, tx, in)
		if err != nil || unit.Status != dagrun.Running {
			out = taken(unit, in.Phase)
			return err
		}

		result, ended, err := resultOf(ctx, tx, unit)
		if err != nil || !ended {
			out = dagrun.Outcome{Status: dagrun.Running}
			return err
		}

		var captured *dagrun.Captured

		n := run.node(in.NodeID)
		if in.Phase == dagrun.PhaseWork && result.Failure == nil && n.GivesFiles() {
			if captured, err = filesOf(ctx, tx, unit.ID); err != nil {
				return err
			}

			if captured == nil {
				out = dagrun.Outcome{Status: dagrun.Running, Capture: true}
				return nil
			}

			result.Failure = captured.Failure
		}

		if err := addUsage(ctx, tx, unit.ID, result.Usage); err != nil {
			return err
		}

		if in.Phase == dagrun.PhaseApproval && result.Failure == nil {
			out = approval(result.Text)
			return nil
		}

		output, failure := dagrun.OutputOf(n, in.Item, result)
		if failure != nil {
			out = failed(failure)
			return nil
		}

		out, err = completeWith(ctx, tx, run, in.NodeID, in.Item, output, captured)

		return err
	})

	return out, pg.Fault("take the result of a node of a DAG run", err)
}

// taken returns the outcome of an attempt whose result was taken before.
func taken(u dagrun.Unit, phase dagrun.Phase) dagrun.Outcome {
	switch {
	case u.Failure != nil && (u.Status == dagrun.Failed || u.Status == dagrun.Waiting):
		return failed(u.Failure)
	case phase == dagrun.PhaseApproval && (u.Phase == dagrun.PhaseWork || u.Phase == dagrun.PhasePause || u.Status == dagrun.Completed):
		return dagrun.Outcome{Status: dagrun.Completed, Approved: true}
	default:
		return dagrun.Outcome{Status: u.Status, Failure: u.Failure}
	}
}

func approval(answer string) dagrun.Outcome {
	if answer == dagrun.Approve {
		return dagrun.Outcome{Status: dagrun.Completed, Approved: true}
	}

	return dagrun.Outcome{Status: dagrun.Completed, Failure: &dagrun.NodeFailure{
		Code: dagrun.CodeNotApproved, Message: "the node was not approved: " + shorten(answer),
	}}
}

// addUsage adds what an attempt has used, once: its mark as started goes with it.
func addUsage(ctx context.Context, tx pgx.Tx, unitID string, used domain.Usage) error {
	_, err := tx.Exec(ctx, `
		UPDATE dag_run_nodes
		SET    begun = false, input_tokens = input_tokens + $2, output_tokens = output_tokens + $3,
		       cache_read_tokens = cache_read_tokens + $4, cache_write_tokens = cache_write_tokens + $5, cost_nano = cost_nano + $6,
		       uncosted_tokens = uncosted_tokens + $7
		WHERE  id = $1 AND begun`, unitID, used.InputTokens, used.OutputTokens, used.CacheReadTokens, used.CacheWriteTokens, used.Cost,
		used.UncostedTokens)

	return err
}

// unitOf reads an attempt of a unit. Its status is Cancelled when another attempt has
// followed.
func (s *Store) unitOf(ctx context.Context, tx pgx.Tx, in contract.DAGAttempt) (u dagrun.Unit, err error) {
	var (
		code    *string
		message string
	)

	err = tx.QueryRow(ctx, `
		SELECT id, node_id, item, CASE WHEN status = 'running' AND (attempt, phase) <> ($4, $5) THEN 'cancelled' ELSE status END,
		       phase, attempt, coalesce(session_id, ''), coalesce(chat_id, ''), coalesce(child_id, ''), begun, error_code,
		       coalesce(error_message, '')
		FROM   dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = $3 AND NOT superseded`,
		in.RunID, in.NodeID, in.Item, in.Attempt, in.Phase).
		Scan(&u.ID, &u.NodeID, &u.Item, &u.Status, &u.Phase, &u.Attempt, &u.SessionID, &u.ChatID, &u.ChildID, &u.Begun, &code, &message)
	if code != nil {
		u.Failure = &dagrun.NodeFailure{Code: *code, Message: message}
	}

	return u, err
}

// WatchedUnit reads the work of an attempt, and whether its chat waits for something outside
// of it. The event log says nothing of a chat whose events are not published yet, as after
// an outage of the log.
func (s *Store) WatchedUnit(ctx context.Context, in contract.DAGAttempt) (work dagrun.Work, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		if work.Unit, err = s.unitOf(ctx, tx, in); err != nil {
			return err
		}

		work.Node = run.node(in.NodeID)

		var works bool

		err := tx.QueryRow(ctx, `
			SELECT coalesce(c.state = 'running' AND c.waiting_reason = ANY ($2), false)
			       AND NOT EXISTS (SELECT FROM outbox o WHERE o.session_id = n.session_id AND o.seq IS NULL)
			FROM   dag_run_nodes n LEFT JOIN chats c ON c.id = n.chat_id WHERE n.id = $1`, work.Unit.ID, working).Scan(&works)
		work.Idle = !works

		return err
	})

	return work, pg.Fault("watch a node of a DAG run", err)
}

// working are the waiting reasons of a chat that works: events are expected of it.
var working = []domain.WaitingReason{domain.WaitingNone, domain.WaitingModel, domain.WaitingTool, domain.WaitingChild}

// SetDue writes when the next activity of a unit is due.
func (s *Store) SetDue(ctx context.Context, unitID string, attempt int, due time.Time) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET due_at = $3 WHERE id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded`,
		unitID, attempt, due)

	return pg.Fault("watch a node of a DAG run", err)
}

// Claim assigns an attempt of a unit its session, or the run of its subflow, once. The row of
// a unit whose pause has ended still says waiting: the attempt's number fences earlier ones.
func (s *Store) Claim(ctx context.Context, in contract.DAGAttempt) (work dagrun.Work, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		n := run.node(in.NodeID)
		work = dagrun.Work{Node: n, Run: dagrun.WorkRun{
			ID: run.id, SolutionID: run.solutionID, OwnerID: run.ownerID, Version: run.version, Depth: run.depth,
		}}
		subflow := in.Phase == dagrun.PhaseWork && dagrun.Subflow(n)

		var (
			request *string
			closed  bool
		)

		u := &work.Unit

		err := tx.QueryRow(ctx, `
			UPDATE dag_run_nodes n
			SET    status = 'running', phase = @phase, attempt = @attempt, due_at = @due, deadline = @deadline,
			       started_at = coalesce(started_at, clock_timestamp()), begun = begun AND o.same,
			       chat_id = CASE WHEN o.same THEN chat_id END,
			       session_id = CASE WHEN o.same THEN session_id WHEN @subflow THEN NULL ELSE @id END,
			       child_id = CASE WHEN o.same THEN child_id WHEN @subflow THEN @id END, files = CASE WHEN o.same THEN files END
			FROM   (SELECT id, status = 'running' AND phase = @phase AND attempt = @attempt AS same FROM dag_run_nodes
			        WHERE run_id = @run AND node_id = @node AND item = @item AND NOT superseded FOR UPDATE) o
			WHERE  n.id = o.id AND (o.same OR n.status = 'ready' OR n.status = 'running' AND n.phase = 'approval' AND @phase = 'work'
			       OR n.status = 'waiting' AND n.attempt < @attempt)
			RETURNING n.id, n.node_id, n.item, n.phase, n.attempt, coalesce(n.session_id, ''), coalesce(n.child_id, ''), n.request,
			       (SELECT u.closed FROM users u WHERE u.id = @owner)`,
			pgx.NamedArgs{
				"run": run.id, "node": n.ID, "item": in.Item, "phase": in.Phase, "attempt": in.Attempt, "due": in.Due,
				"deadline": in.Deadline, "subflow": subflow, "id": domain.NewID(), "owner": run.ownerID,
			}).Scan(&u.ID, &u.NodeID, &u.Item, &u.Phase, &u.Attempt, &u.SessionID, &u.ChildID, &request, &closed)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.Conflict, dagrun.CodeNodeOver, "the node is over")
		}

		if err == nil && closed {
			return domain.Newf(domain.Forbidden, domain.CodeAccountClosed, "the account of the owner is closed")
		}

		if err == nil && request != nil {
			work.Request = &dagrun.Request{}
			err = json.Unmarshal([]byte(*request), work.Request)
		}

		return err
	})

	return work, pg.Fault("claim a node of a DAG run", err)
}

// Began records the chat, or the start of the subflow, of an attempt.
func (s *Store) Began(ctx context.Context, unitID string, attempt int, out *contract.BeginDAGNodeOut) error {
	err := s.db.Pool.QueryRow(ctx, `
		WITH begun AS (
			UPDATE dag_run_nodes SET begun = true, chat_id = nullif($3, '')
			WHERE  id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded)
		SELECT coalesce((SELECT solution_id FROM sessions WHERE id = $4), $5)`,
		unitID, attempt, out.ChatID, out.SessionID, out.SolutionID).Scan(&out.SolutionID)

	return pg.Fault("begin a node of a DAG run", err)
}

// Stopping reads a unit whose work must be stopped, and refuses the messages of its attempt
// that a worker may still send. Its session has no other ones.
func (s *Store) Stopping(ctx context.Context, unitID string) (work dagrun.Work, found bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		u, r := &work.Unit, &work.Run

		err := tx.QueryRow(ctx, `
			SELECT n.id, n.attempt, coalesce(n.session_id, ''), coalesce(n.child_id, ''),
			       coalesce((SELECT k.solution_id FROM dag_runs k WHERE k.id = n.child_id), ''), r.id, r.solution_id, r.owner_id
			FROM   dag_run_nodes n JOIN dag_runs r ON r.id = n.run_id WHERE n.id = $1`, unitID).
			Scan(&u.ID, &u.Attempt, &u.SessionID, &u.ChildID, &work.ChildSolution, &r.ID, &r.SolutionID, &r.OwnerID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		found = err == nil
		if err != nil || u.SessionID == "" {
			return err
		}

		for _, phase := range []dagrun.Phase{dagrun.PhaseApproval, dagrun.PhaseWork} {
			if _, _, err := pg.CancelSend(ctx, tx, u.SessionID, dagrun.MessageID(u.ID, u.Attempt, phase)); err != nil {
				return err
			}
		}

		return nil
	})

	return work, found, pg.Fault("stop a node of a DAG run", err)
}

// Stopped records that the work of a unit is stopped.
func (s *Store) Stopped(ctx context.Context, unitID string) error {
	_, err := s.db.Pool.Exec(ctx, `UPDATE dag_run_nodes SET stop = false WHERE id = $1`, unitID)
	return pg.Fault("stop a node of a DAG run", err)
}
