// Package dagruns runs the DAGs of production solutions: it begins, cancels and retries
// runs, and does for their workflows what nodes need. The database decides how a run goes
// on (domain/dagrun); a node that works is a session with one chat.
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
	"everloop/domain/schedule"
)

// Store reads and writes runs.
type Store interface {
	CreateDAGRun(ctx context.Context, in dagrun.New) error
	DAGRun(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error)
	CancelDAGRun(ctx context.Context, runID string) (bool, error)
	RetryDAGRun(ctx context.Context, runID string, retry dagrun.Retry) error
	CancelDAGRunsOf(ctx context.Context, caller domain.User, solutionID string) (open []dagrun.Ref, err error)
	DeleteProdSolution(ctx context.Context, caller domain.User, id string) (deleted bool, err error)

	AdvanceDAGRun(ctx context.Context, runID string) (dagrun.Step, error)
	CountDAGAdvance(ctx context.Context, runID string) (int, error)
	FailDAGRun(ctx context.Context, runID, code, message string) (open bool, err error)
	ClaimDAGUnit(ctx context.Context, unitID string, stop bool) (dagrun.UnitWork, bool, error)
	DAGUnitBegan(ctx context.Context, unitID string, attempt int, chatID domain.ChatID) (goesOn bool, err error)
	RejectDAGUnit(ctx context.Context, unitID string, attempt int, code, message string) error
	DAGUnitStopped(ctx context.Context, unitID string) error
	WatchDAGUnit(ctx context.Context, unitID string, attempt int, due time.Time) error
	FailDAGUnit(ctx context.Context, unitID string, attempt int, code, message string) error

	EnsureSession(ctx context.Context, ownerID string, in domain.NewSession) error
}

// Runs reaches Temporal.
type Runs interface {
	StartDAGRun(ctx context.Context, solutionID, runID string) error
	ResumeDAGRun(ctx context.Context, solutionID, runID string) error
	NotifyWaiter(ctx context.Context, waiter schedule.ChatWaiter) (signalled bool, err error)
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

// Graphs gives the DAGs that can be run, version 0: the published one; and the ids of
// skills that they name.
type Graphs interface {
	SkillID(ctx context.Context, ownerID, named string) (string, error)
	RunnableDAG(ctx context.Context, caller domain.User, id string, version int) (g dag.Graph, number int, ownerID string, err error)
}

// Config is what New needs.
type Config struct {
	Store  Store
	Runs   Runs
	Chats  Chats
	Graphs Graphs
	Agents Agents
	Events Events
	Logger *slog.Logger
	// CodeTimeout is how long the code of a node may take; a node with a shorter timeout_s
	// ends it earlier.
	CodeTimeout time.Duration
}

// Service runs DAGs.
type Service struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Chats == nil || cfg.Graphs == nil || cfg.Agents == nil || cfg.Events == nil ||
		cfg.Logger == nil || cfg.CodeTimeout <= 0 {
		return nil, errors.New("dagruns: the configuration needs Records, Runs, Chats, Graphs, Agents, Events, Logger and CodeTimeout")
	}

	return &Service{cfg}, nil
}

// Start begins a run of a version; 0: the published one.
func (s *Service) Start(
	ctx context.Context,
	caller domain.User,
	solutionID string,
	version int,
	inputs json.RawMessage,
) (dagrun.RunRecord, error) {
	graph, version, ownerID, err := s.cfg.Graphs.RunnableDAG(ctx, caller, solutionID, version)
	if err != nil {
		return dagrun.RunRecord{}, err
	}

	if err := checkInputs(graph, inputs); err != nil {
		return dagrun.RunRecord{}, err
	}

	run := dagrun.New{
		ID:         domain.NewID(),
		SolutionID: solutionID,
		OwnerID:    ownerID,
		Version:    version,
		Trigger:    dagrun.TriggerAPI,
		Inputs:     inputs,
		Nodes:      graph.Order(),
	}
	if err := s.cfg.Store.CreateDAGRun(ctx, run); err != nil {
		return dagrun.RunRecord{}, err
	}

	s.start(ctx, solutionID, run.ID)

	return s.cfg.Store.DAGRun(ctx, caller, solutionID, run.ID)
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

// Cancel ends a run and what its nodes do. One that is over stays as it is.
func (s *Service) Cancel(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error) {
	if _, err := s.cfg.Store.DAGRun(ctx, caller, solutionID, runID); err != nil {
		return dagrun.RunRecord{}, err
	}

	cancelled, err := s.cfg.Store.CancelDAGRun(ctx, runID)
	if err != nil {
		return dagrun.RunRecord{}, err
	}

	if cancelled {
		s.Resume(ctx, solutionID, runID)
	}

	return s.cfg.Store.DAGRun(ctx, caller, solutionID, runID)
}

// Resume has the workflow of a run look at its nodes. What fails is repeated by the repair.
func (s *Service) Resume(ctx context.Context, solutionID, runID string) {
	if err := s.cfg.Runs.ResumeDAGRun(context.WithoutCancel(ctx), solutionID, runID); err != nil {
		s.cfg.Logger.Warn("failed to signal a DAG run, retrying", "run_id", runID, "error", err)
	}
}

// Retry has a run that failed begin again under its id. Outputs of nodes whose definition
// and inputs are the same are used again.
func (s *Service) Retry(
	ctx context.Context,
	caller domain.User,
	solutionID, runID string,
	how dagrun.Resumption,
) (dagrun.RunRecord, error) {
	run, err := s.cfg.Store.DAGRun(ctx, caller, solutionID, runID)
	if err != nil {
		return run, err
	}

	if how.Version == 0 {
		how.Version = run.Version
	}

	graph, version, _, err := s.cfg.Graphs.RunnableDAG(ctx, caller, solutionID, how.Version)
	if err != nil {
		return run, err
	}

	retry := dagrun.Retry{Version: version, Kept: how.KeepNodes, Nodes: graph.Order()}
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
	if err := s.cfg.Store.RetryDAGRun(ctx, runID, retry); err != nil {
		return run, err
	}

	s.Resume(ctx, solutionID, runID)

	return s.cfg.Store.DAGRun(ctx, caller, solutionID, runID)
}
