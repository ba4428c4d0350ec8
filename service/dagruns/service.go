// Package dagruns is the room of DAG runs: it starts, cancels and retries them, stores them,
// and does for their workflows what nodes need. The workflow of a run decides how it
// continues (domain/dagrun); the rows are what readers see.
package dagruns

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
	"everloop/internal/durable"
	"everloop/service/files"
	"everloop/service/production"
)

// Runs reaches the workflows of runs.
type Runs interface {
	// StartDAGRun starts the workflow of a run unless it is open.
	StartDAGRun(ctx context.Context, solutionID, runID string) error
	// ResumeDAGRun starts the workflow of a run, or has an open one look again at its end.
	ResumeDAGRun(ctx context.Context, solutionID, runID string) error
	// CancelDAGRun requests the cancellation of the workflow; false: it is not open.
	CancelDAGRun(ctx context.Context, solutionID, runID string) (open bool, err error)
	// NotifyWaiter signals a workflow that waits for the end of a run; false: it is not open.
	NotifyWaiter(ctx context.Context, waiter domain.ChatWaiter) (bool, error)
	// AwaitDAGRun waits until the workflow has closed.
	AwaitDAGRun(ctx context.Context, solutionID, runID string) error
	// Details returns what operators read of the workflow of a node.
	Details(a durable.Attributes) string
}

// Chats sends messages and stops chats.
type Chats interface {
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
	Stop(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (bool, error)
}

// Agents makes sessions of production agents.
type Agents interface {
	StartSession(ctx context.Context, ownerID string, in prodagent.Start) error
}

// Events gives when a session's newest event was written; zero: none is kept.
type Events interface {
	LastAt(ctx context.Context, sessionID domain.SessionID) (time.Time, error)
}

// Deps are what the service works with. All fields are required.
type Deps struct {
	DB         *pg.DB
	Sessions   Sessions
	Files      files.Carrier
	Runs       Runs
	Chats      Chats
	Production *production.Service
	Agents     Agents
	Events     Events
	Logger     *slog.Logger
	// CodeTimeout is how long the code of a node may take; a node with a shorter timeout_s
	// ends it earlier.
	CodeTimeout time.Duration
}

// Sessions creates and reads sessions.
type Sessions interface {
	OwnSession(ctx context.Context, caller domain.User, id domain.SessionID) (domain.Session, error)
	EnsureSession(ctx context.Context, ownerID string, in domain.NewSession) error
}

// Service runs DAGs.
type Service struct {
	*Store

	cfg Deps
}

// New returns a new service.
func New(deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Sessions == nil || deps.Runs == nil || deps.Chats == nil || deps.Production == nil || deps.Agents == nil ||
		deps.Events == nil || deps.Files.Workspaces == nil || deps.Files.Snapshots == nil || deps.Logger == nil || deps.CodeTimeout <= 0 {
		return nil, errors.New("dagruns: all dependencies are required")
	}

	return &Service{Store: NewStore(deps.DB), cfg: deps}, nil
}

// Start starts a run of a version; 0: the published one.
func (s *Service) Start(
	ctx context.Context,
	caller domain.User,
	solutionID string,
	version int,
	inputs json.RawMessage,
) (dagrun.RunRecord, error) {
	return s.StartNew(ctx, caller, dagrun.New{
		ID: domain.NewID(), SolutionID: solutionID, Version: version, Trigger: dagrun.TriggerAPI, Inputs: inputs,
	})
}

// StartNew starts a run under its id, and returns the existing one when it was started before.
func (s *Service) StartNew(ctx context.Context, caller domain.User, in dagrun.New) (dagrun.RunRecord, error) {
	run, err := s.DAGRun(ctx, caller, in.SolutionID, in.ID)

	switch {
	case err == nil:
		if !run.Status.Over() {
			s.start(ctx, in.SolutionID, in.ID)
		}

		return run, nil
	case !domain.HasCode(err, dagrun.CodeRunNotFound):
		return run, err
	}

	graph, err := s.Runnable(ctx, caller, &in)
	if err != nil {
		return run, err
	}

	in.Nodes = graph.Order()

	return s.create(ctx, caller, in)
}

// Runnable checks that a caller can start a run with its inputs, and sets its version and owner.
func (s *Service) Runnable(ctx context.Context, caller domain.User, in *dagrun.New) (graph dag.Graph, err error) {
	graph, in.Version, in.OwnerID, err = s.cfg.Production.RunnableDAG(ctx, caller, in.SolutionID, in.Version)
	if err != nil {
		return graph, err
	}

	return graph, checkInputs(graph, in.Inputs)
}

// create stores a run and starts its workflow.
func (s *Service) create(ctx context.Context, caller domain.User, run dagrun.New) (dagrun.RunRecord, error) {
	if err := s.CreateDAGRun(ctx, run); err != nil {
		return dagrun.RunRecord{}, err
	}

	s.start(ctx, run.SolutionID, run.ID)

	return s.DAGRun(ctx, caller, run.SolutionID, run.ID)
}

func checkInputs(graph dag.Graph, inputs json.RawMessage) error {
	if len(inputs) > dagrun.MaxInputs {
		return domain.Newf(
			domain.TooLarge,
			"inputs_too_large",
			"the inputs have %d bytes; at most %d are possible",
			len(inputs),
			dagrun.MaxInputs,
		)
	}

	return dagrun.CheckInputs(graph, inputs)
}

// start starts the workflow of a run. What fails is repeated by the repair.
func (s *Service) start(ctx context.Context, solutionID, runID string) {
	if err := s.cfg.Runs.StartDAGRun(context.WithoutCancel(ctx), solutionID, runID); err != nil {
		s.cfg.Logger.Warn("failed to start a DAG run, retrying", "run_id", runID, "error", err)
	}
}

// Cancel requests the end of a run and of the work of its nodes. A run that is over stays as
// it is. While Temporal is unavailable the request stays in the row, and the reconciler repeats it.
func (s *Service) Cancel(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error) {
	if _, err := s.DAGRun(ctx, caller, solutionID, runID); err != nil {
		return dagrun.RunRecord{}, err
	}

	if err := s.CancelAny(ctx, solutionID, runID); err != nil {
		s.cfg.Logger.Warn("failed to cancel the workflow of a DAG run, retrying", "run_id", runID, "error", err)
	}

	return s.DAGRun(ctx, caller, solutionID, runID)
}

// CancelAny cancels a run of any owner, as Cancel does.
func (s *Service) CancelAny(ctx context.Context, solutionID, runID string) error {
	cancelled, err := s.CancelDAGRun(ctx, runID)
	if err != nil || !cancelled {
		return err
	}

	return s.cancelWorkflow(ctx, solutionID, runID)
}

// Restart starts the workflow of a run unless it is open, and cancels it again when the end
// of the run was requested.
func (s *Service) Restart(ctx context.Context, solutionID, runID string) error {
	cancel, err := s.CancelRequested(ctx, runID)
	if err != nil {
		return err
	}

	if cancel {
		return s.cancelWorkflow(ctx, solutionID, runID)
	}

	return s.cfg.Runs.StartDAGRun(ctx, solutionID, runID)
}

// cancelWorkflow cancels the workflow of a run whose end was requested. A workflow that is
// not open yet ends the run when it starts.
func (s *Service) cancelWorkflow(ctx context.Context, solutionID, runID string) error {
	open, err := s.cfg.Runs.CancelDAGRun(context.WithoutCancel(ctx), solutionID, runID)
	if err == nil && !open {
		err = s.cfg.Runs.StartDAGRun(context.WithoutCancel(ctx), solutionID, runID)
	}

	return err
}

// Retry has a run that failed start again under its id. Outputs of nodes whose definition
// and inputs are the same are used again.
func (s *Service) Retry(
	ctx context.Context,
	caller domain.User,
	solutionID, runID string,
	how dagrun.Resumption,
) (dagrun.RunRecord, error) {
	run, err := s.DAGRun(ctx, caller, solutionID, runID)
	if err != nil {
		return run, err
	}

	if how.Version == 0 {
		how.Version = run.Version
	}

	graph, version, _, err := s.cfg.Production.RunnableDAG(ctx, caller, solutionID, how.Version)
	if err != nil {
		return run, err
	}

	retry := dagrun.Retry{Version: version, Kept: how.KeepNodes, Nodes: graph.Order()}
	if run.NodeID != nil {
		if how.FromNodeID != "" || how.Version != run.Version || len(how.KeepNodes) > 0 || len(how.Override) > 0 {
			return run, domain.Invalidf("body", "must be empty: the run of one node is retried as it is")
		}

		retry.Nodes = []string{*run.NodeID}
	}

	if how.FromNodeID != "" {
		if retry.Barred = graph.After(how.FromNodeID); retry.Barred == nil {
			return run, domain.Invalidf("body.from_node_id", "is not a node of version %d", version)
		}
	}

	inputs, err := run.InputsWith(how.Override)
	if err != nil {
		return run, err
	}

	if err := checkInputs(graph, inputs); err != nil {
		return run, err
	}

	retry.Inputs = inputs
	if err := s.RetryDAGRun(ctx, runID, retry); err != nil {
		return run, err
	}

	if err := s.cfg.Runs.ResumeDAGRun(context.WithoutCancel(ctx), solutionID, runID); err != nil {
		s.cfg.Logger.Warn("failed to start a retried DAG run, retrying", "run_id", runID, "error", err)
	}

	return s.DAGRun(ctx, caller, solutionID, runID)
}
