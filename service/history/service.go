package history

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/internal/retry"

	"everloop/domain"
	"everloop/domain/history"
)

// Config is what New needs; all but Budget and Wait is required.
type Config struct {
	Store   *Store
	Files   Files
	Runs    Runs
	Process string // names this process among others; the leases of captures have it
	Budget  Budget
	Wait    time.Duration // how long a caller waits for a move; 0: moveWait
	Logger  *slog.Logger
}

// Service reads a session's history, captures the files of its checkpoints and moves the
// session in its history. A move is claimed in the database before it changes anything:
// no chat starts in the session between the claim and the end of the move. A workflow
// carries the move out; see Move.
type Service struct {
	*Store
	*Capturer
	cfg       Config
	comparing chan struct{} // holds a token for each comparison of a workspace
}

// New returns a new service. It fails when the configuration is incomplete.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Files == nil || cfg.Runs == nil || cfg.Process == "" || cfg.Logger == nil {
		return nil, errors.New("history: the configuration needs Store, Files, Runs, Process and Logger")
	}

	return &Service{Store: cfg.Store, Capturer: newCapturer(cfg), cfg: cfg, comparing: make(chan struct{}, maxComparisons)}, nil
}

// Rewind takes a session back to a checkpoint, conversation and files, on a new
// branch. What was stays reachable by the checkpoint that the answer names.
func (d *Service) Rewind(
	ctx context.Context,
	owner domain.User,
	sessionID domain.SessionID,
	checkpointID domain.CheckpointID,
) (history.Moved, error) {
	return d.move(ctx, owner, history.Request{Kind: domain.OperationRewind, SessionID: sessionID, CheckpointID: checkpointID})
}

// SwitchBranch takes a session to the newest end of the branch that a
// checkpoint's turn is on, conversation and files.
func (d *Service) SwitchBranch(
	ctx context.Context,
	owner domain.User,
	sessionID domain.SessionID,
	checkpointID domain.CheckpointID,
) (history.Moved, error) {
	return d.move(ctx, owner, history.Request{Kind: domain.OperationSwitch, SessionID: sessionID, CheckpointID: checkpointID})
}

func (d *Service) move(ctx context.Context, owner domain.User, want history.Request) (history.Moved, error) {
	claimed, err := d.ClaimHistory(ctx, owner.ID, want)
	switch {
	case err != nil:
		return history.Moved{}, err
	case claimed.Done != nil:
		return *claimed.Done, nil
	}

	d.start(ctx, *claimed.Operation)

	return d.await(ctx, claimed.Operation.ID)
}

// Whatif makes a message durable that runs on from a step of the active branch.
// Its chat starts when the files are what they were after the step.
func (d *Service) Whatif(ctx context.Context, owner domain.User, send domain.Send) (domain.SendAck, error) {
	claimed, err := d.ClaimHistory(ctx, owner.ID, history.Request{
		Kind: domain.OperationWhatif, SessionID: send.SessionID, Send: &send,
	})
	if err != nil || claimed.Operation == nil { // it was sent before
		return claimed.Ack, err
	}

	d.start(ctx, *claimed.Operation)

	return claimed.Ack, nil
}

// startTimeout bounds the start of a workflow. The reconciler starts what was not started.
const startTimeout = 30 * time.Second

// start starts the workflow of a claimed operation. It does not wait, and continues
// when the caller has left.
func (d *Service) start(ctx context.Context, op history.Operation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	go func() {
		defer cancel()

		if err := d.cfg.Runs.StartMove(ctx, op); err != nil {
			d.cfg.Logger.Warn("failed to start the workflow of a move; it will be retried",
				"session_id", op.SessionID, "operation_id", op.ID, "kind", op.Kind, "error", err)
		}
	}()
}

// moveWait is how long a caller waits for a move.
const moveWait = 2 * time.Minute

// Pauses between two reads of an operation that a caller waits for.
const (
	firstRead = 5 * time.Millisecond
	lastRead  = 250 * time.Millisecond
)

// errPending is the answer to a caller whose move takes longer than moveWait.
var errPending = domain.Newf(domain.Unavailable, "history_pending",
	"the session is still being moved and will be; read its history again later instead of repeating the request")

// await waits for the result of an operation by reading its row: the result of
// the workflow may arrive seconds after its end.
func (d *Service) await(ctx context.Context, operationID string) (history.Moved, error) {
	wait := d.cfg.Wait
	if wait == 0 {
		wait = moveWait
	}

	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	for between := firstRead; ; between = min(between*3/2, lastRead) {
		moved, done, err := d.HistoryResult(waiting, operationID)
		switch {
		case ctx.Err() != nil:
			return moved, ctx.Err()
		case waiting.Err() != nil && !done:
			return moved, errPending
		case err != nil || done:
			return moved, err
		case !retry.Wait(waiting, between) && ctx.Err() == nil:
			return moved, errPending
		}
	}
}

// repairEvery is the time between two repairs.
const repairEvery = time.Second

// Run repairs captures that crashes interrupted, until ctx ends.
func (d *Service) Run(ctx context.Context) {
	for retry.Wait(ctx, repairEvery) {
		if err := d.Repair(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Logger.Warn("failed to repair captures, retrying", "error", err)
		}
	}
}
