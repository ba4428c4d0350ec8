package dagruns

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/prodagent"
	"everloop/domain/schedule"
	"everloop/internal/durable"
)

// Advance takes all steps of a run that can be taken now. The run that waits for it, if it
// is a subflow, hears of its end. With repeated an attempt of the same step failed before.
func (s *Service) Advance(ctx context.Context, runID string, repeated bool) (dagrun.Step, error) {
	if repeated {
		if err := s.boundAdvances(ctx, runID); err != nil {
			return dagrun.Step{}, err
		}
	}

	step, err := s.cfg.Store.AdvanceDAGRun(ctx, runID)
	if err == nil && len(step.Watch) > 0 {
		step, err = s.watch(ctx, runID, step.Watch)
	}

	if err == nil && step.Ended && step.Parent != "" {
		waiter := schedule.ChatWaiter{WorkflowID: durable.DAGRunWorkflowID(step.ParentSolution, step.Parent)}
		if _, fault := s.cfg.Runs.NotifyWaiter(ctx, waiter); fault != nil {
			err = domain.Unavailablef("Temporal", fault)
		}
	}

	return step, err
}

// boundAdvances fails a run whose step failed too often while the database answered.
func (s *Service) boundAdvances(ctx context.Context, runID string) error {
	failed, err := s.cfg.Store.CountDAGAdvance(ctx, runID)
	if err != nil || failed < dagrun.MaxAdvances {
		return err
	}

	s.cfg.Logger.Error("failed to advance a DAG run too often, ending it", "run_id", runID, "attempts", failed)

	_, err = s.cfg.Store.FailDAGRun(ctx, runID, dagrun.CodeAdvance,
		fmt.Sprintf("the next step of the run failed %d times; the log of the service has the errors", failed))

	return err
}

// Begin begins the work of a unit, once however often it is called: its session and
// message, or its subflow, have ids that were given before. With true the run has to be
// advanced.
func (s *Service) Begin(ctx context.Context, unitID string) (advance bool, err error) {
	work, found, err := s.cfg.Store.ClaimDAGUnit(ctx, unitID, false)
	if err != nil || !found {
		return false, err
	}

	u := work.Unit

	var chatID domain.ChatID

	if u.ChildID != "" {
		err = s.beginSubflow(ctx, work)
	} else {
		chatID, err = s.send(ctx, work)
	}

	if err != nil {
		e := domain.AsError(err)
		if e.Retryable() {
			return false, err
		}

		return true, s.cfg.Store.RejectDAGUnit(ctx, unitID, u.Attempt, e.Code, e.Message)
	}

	goesOn, err := s.cfg.Store.DAGUnitBegan(ctx, unitID, u.Attempt, chatID)
	if err == nil && !goesOn {
		err = s.stop(ctx, work)
	}
	// A subflow may have ended before it was known as started.
	return u.ChildID != "", err
}

func (s *Service) send(ctx context.Context, work dagrun.UnitWork) (chatID domain.ChatID, err error) {
	u, n, run := work.Unit, work.Node, work.Run

	session, send, err := messageOf(work, s.cfg.CodeTimeout)
	if err != nil {
		return "", err
	}

	session.ID, session.Intent = u.SessionID, cmp.Or(n.Name, n.ID)
	if err := s.makeSession(ctx, run.OwnerID, configOf(n), session); err != nil {
		return "", err
	}

	send.SessionID, send.Delivery, send.Trigger = u.SessionID, domain.DeliverEnqueue, domain.TriggerDAG
	send.ClientMessageID = u.MessageID()
	send.Waiter = durable.DAGRunWorkflowID(run.SolutionID, run.ID)
	ack, err := s.cfg.Chats.Send(ctx, caller(run.OwnerID), send)

	return ack.ChatID, err
}

// makeSession makes the session of an attempt, once: of the production agent that the node
// names, or with what the node itself says.
func (s *Service) makeSession(ctx context.Context, ownerID string, c dag.Config, session domain.NewSession) error {
	session.Class = domain.ClassDAG
	if session.Setup.Script != nil {
		return s.cfg.Store.EnsureSession(ctx, ownerID, session)
	}

	if c.AgentID != "" {
		return s.cfg.Agents.StartSession(ctx, ownerID, prodagent.Start{
			SessionID: session.ID, Class: session.Class, AgentID: c.AgentID, Intent: session.Intent, Model: session.Model,
			Budget: session.Setup.Budget,
		})
	}

	if c.Skill != "" {
		id, err := s.cfg.Graphs.SkillID(ctx, ownerID, c.Skill)
		if err != nil {
			return err
		}

		session.PrimarySkillID = &id
	}

	return s.cfg.Store.EnsureSession(ctx, ownerID, session)
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }

// messageOf is the session of a unit's attempt, and what is sent to it. Limit is the longest
// time that the code of a node may take.
func messageOf(work dagrun.UnitWork, limit time.Duration) (session domain.NewSession, send domain.Send, err error) {
	u, n := work.Unit, work.Node
	c := configOf(n)
	text := ""

	switch {
	case u.Phase == dagrun.PhaseApproval:
		text = "Approve the start of node " + cmp.Or(n.Name, n.ID) + "?"
		session.Setup.Script, err = question("Approval", text, []string{dagrun.Approve, dagrun.Reject})
	case n.Type == dag.Human:
		text = u.Request.Prompt
		session.Setup.Script, err = question("", text, c.Options)
	case n.Type == dag.Tool, n.Type == dag.Map && c.Tool != "":
		text = "Run the tool " + c.Tool + "."
		session.Setup.Script, err = call(c.Tool, u.Request.Arguments)
	case n.Type == dag.Code:
		text = "Run the code of node " + cmp.Or(n.Name, n.ID) + "."
		session.Setup.Script, err = scriptOf(work, limit)
	default:
		text = u.Request.Message()

		if c.Model != "" {
			session.Model = &c.Model
		}

		send.Mode = domain.Mode(c.Mode)
		if schema := dagrun.SchemaOf(n, u.Item); schema != nil {
			send.OutputSchema, err = json.Marshal(schema)
		}
	}

	if asks := u.Phase == dagrun.PhaseApproval; asks || n.Type == dag.Human {
		session.Setup.QuestionPolicy, session.Setup.Escalation = escalationOf(n, asks)
	}

	if n.Budget != nil {
		session.Setup.Budget = &domain.Budget{MaxTokens: n.Budget.MaxTokens, MaxCost: n.Budget.MaxCost}
	}

	send.Message = []domain.ContentPart{{Type: "text", Text: cmp.Or(text, "Begin.")}}

	return session, send, err
}

// escalationOf says what becomes of a node's question that no user answers: of its approval,
// or of the question that a human node without one puts.
func escalationOf(n dag.Node, approval bool) (*domain.QuestionPolicy, *domain.Escalation) {
	if n.Approval == nil || n.Approval.Escalation == nil || approval != (n.Approval.Policy == dag.ApprovalRequired) {
		return nil, nil
	}

	e := n.Approval.Escalation
	answer := e.DefaultAnswer

	if approval && answer == "" {
		answer = dagrun.Reject
	}

	return &domain.QuestionPolicy{TimeoutS: e.TimeoutS, OnTimeout: domain.PolicyAnswer, EscalateAfterS: e.EscalateAfterS},
		&domain.Escalation{DefaultAnswer: answer, Webhooks: e.Webhooks, UserID: e.UserID}
}

// maxQuestion bounds the text of a question, in bytes.
const maxQuestion = 4000

func question(header, text string, options []string) (*domain.ScriptedCall, error) {
	if len(text) > maxQuestion {
		text = domain.CleanText(text[:maxQuestion-4]) + "…"
	}

	offered := make([]map[string]any, len(options))
	for i, o := range options {
		offered[i] = map[string]any{"label": o}
	}

	asked := map[string]any{"question": text, "options": offered}
	if header != "" {
		asked["header"] = header
	}

	return call("AskUserQuestion", map[string]any{"questions": []any{asked}})
}

func call(tool string, arguments map[string]any) (*domain.ScriptedCall, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}

	raw, err := json.Marshal(arguments)

	return &domain.ScriptedCall{Tool: tool, Arguments: raw}, err
}

func configOf(n dag.Node) dag.Config {
	if n.Config == nil {
		return dag.Config{}
	}

	return *n.Config
}

// beginSubflow begins the run of the DAG that a node stands for.
func (s *Service) beginSubflow(ctx context.Context, work dagrun.UnitWork) error {
	run := work.Run
	if run.Depth >= dagrun.MaxDepth {
		return domain.Newf(domain.Invalid, dagrun.CodeSubflowTooDeep, "subflows may be nested %d deep", dagrun.MaxDepth)
	}

	solutionID := configOf(work.Node).ProdSolutionID

	graph, version, ownerID, err := s.cfg.Graphs.RunnableDAG(ctx, domain.User{ID: run.OwnerID}, solutionID, 0)
	if err != nil {
		return err
	}

	inputs, err := json.Marshal(given(work.Unit.Request.Inputs))
	if err != nil {
		return fmt.Errorf("encode the inputs of a subflow: %w", err)
	}

	if err := checkInputs(graph, inputs); err != nil {
		return err
	}

	err = s.cfg.Store.CreateDAGRun(ctx, dagrun.New{
		ID: work.Unit.ChildID, SolutionID: solutionID, OwnerID: ownerID, Version: version, Trigger: dagrun.TriggerSubflow, Inputs: inputs,
		ParentRun: run.ID, Depth: run.Depth + 1, Nodes: graph.Order(),
	})
	if err != nil {
		return err
	}

	return s.cfg.Runs.StartDAGRun(ctx, solutionID, work.Unit.ChildID)
}

func given(inputs map[string]any) map[string]any {
	if inputs == nil {
		return map[string]any{}
	}

	return inputs
}

// StopUnit stops what a unit had started. With true the run has to be advanced.
func (s *Service) StopUnit(ctx context.Context, unitID string) (advance bool, err error) {
	work, found, err := s.cfg.Store.ClaimDAGUnit(ctx, unitID, true)
	if err != nil || !found {
		return false, err
	}

	if err := s.stop(ctx, work); err != nil {
		return false, err
	}

	return true, s.cfg.Store.DAGUnitStopped(ctx, unitID)
}

func (s *Service) stop(ctx context.Context, work dagrun.UnitWork) error {
	u := work.Unit
	if u.ChildID != "" {
		cancelled, err := s.cfg.Store.CancelDAGRun(ctx, u.ChildID)
		if err == nil && cancelled {
			err = s.signal(ctx, work.ChildSolution, u.ChildID)
		}

		return err
	}

	_, err := s.cfg.Chats.Stop(ctx, caller(work.Run.OwnerID), u.SessionID, true)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	return err
}
