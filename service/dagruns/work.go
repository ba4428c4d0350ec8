package dagruns

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/operator"
	"everloop/domain/prodagent"
	"everloop/internal/durable"
)

// Register binds the steps of runs to their names.
func (s *Service) Register(w worker.ActivityRegistry) {
	contract.LoadDAGRun.Handle(w, final(s.LoadRun))
	contract.ActivateDAGNode.Handle(w, final(s.ActivateNode))
	contract.StartDAGNode.Handle(w, final(s.StartNode))
	contract.FollowDAGEdge.Handle(w, final(s.FollowEdge))
	contract.BeginDAGNode.Handle(w, final(s.BeginNode))
	contract.TakeDAGNode.Handle(w, final(s.TakeNode))
	contract.GatherDAGNode.Handle(w, final(s.GatherNode))
	contract.WatchDAGNode.Handle(w, final(s.WatchNode))
	contract.StopDAGNode.Handle(w, final(s.StopNode))
	contract.StoreDAGRun.Handle(w, final(s.storeRun))
	contract.PlaceDAGFiles.Handle(w, final(s.PlaceFiles))
	contract.CaptureDAGFiles.Handle(w, final(s.CaptureFiles))
}

// final returns a step whose rejections are not retried.
func final[In, Out any](do func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		out, err := do(ctx, in)
		if err == nil {
			return out, nil
		}

		if e := domain.AsError(err); !e.Retryable() {
			err = durable.Final(e.Code, e.Message)
		}

		return out, err
	}
}

// BeginNode implements contract.BeginDAGNode: it creates the session and the message of an
// attempt, or the run of its subflow, under ids that were assigned before. The workflow of
// the run starts their workflow.
func (s *Service) BeginNode(ctx context.Context, in contract.DAGAttempt) (out contract.BeginDAGNodeOut, err error) {
	work, err := s.Claim(ctx, in)
	if err == nil {
		out, err = s.beginWork(ctx, work)
	}

	if err == nil {
		err = s.Began(ctx, work.Unit.ID, work.Unit.Attempt, &out)
	}

	if err == nil {
		out.Details = s.cfg.Runs.Details(durable.Attributes{
			Kind: kindOf(out), SessionID: string(out.SessionID), OwnerID: out.OwnerID,
			ParentRun: durable.DAGRunWorkflowID(work.Run.SolutionID, work.Run.ID),
		})
	}

	return rejection(out, err)
}

// kindOf returns the kind of the workflow that does the work of a unit.
func kindOf(out contract.BeginDAGNodeOut) string {
	if out.ChildID != "" {
		return operator.RunKindDAG
	}

	return operator.RunKindChat
}

func (s *Service) beginWork(ctx context.Context, work dagrun.Work) (out contract.BeginDAGNodeOut, err error) {
	u := work.Unit
	out = contract.BeginDAGNodeOut{UnitID: u.ID, SessionID: u.SessionID, ChildID: u.ChildID, OwnerID: work.Run.OwnerID}

	if u.ChildID != "" {
		out.SolutionID = configOf(work.Node).ProdSolutionID
		return out, s.beginSubflow(ctx, work)
	}

	out.ChatID, err = s.send(ctx, work)

	return out, err
}

// prepare creates the session of an attempt, and returns the message that it is sent.
func (s *Service) prepare(ctx context.Context, work dagrun.Work) (domain.Send, error) {
	session, send, err := messageOf(work, s.cfg.CodeTimeout)
	if err != nil {
		return send, err
	}

	session.ID, session.Intent = work.Unit.SessionID, cmp.Or(work.Node.Name, work.Node.ID)
	session.ParentRun = durable.DAGRunWorkflowID(work.Run.SolutionID, work.Run.ID)

	return send, s.makeSession(ctx, work.Run.OwnerID, configOf(work.Node), session)
}

func (s *Service) send(ctx context.Context, work dagrun.Work) (chatID domain.ChatID, err error) {
	u, run := work.Unit, work.Run

	send, err := s.prepare(ctx, work)
	if err != nil {
		return "", err
	}

	send.SessionID, send.Delivery, send.Trigger = u.SessionID, domain.DeliverEnqueue, domain.TriggerDAG
	send.ClientMessageID = dagrun.MessageID(u.ID, u.Attempt, u.Phase)
	send.Parented = true
	send.Waiter = durable.DAGRunWorkflowID(run.SolutionID, run.ID)
	ack, err := s.cfg.Chats.Send(ctx, caller(run.OwnerID), send)

	return ack.ChatID, err
}

// makeSession makes the session of an attempt, once: of the production agent that the node
// names, or with what the node itself says.
func (s *Service) makeSession(ctx context.Context, ownerID string, c dag.Config, session domain.NewSession) error {
	session.Class = domain.ClassDAG
	if session.Setup.Script != nil {
		return s.cfg.Sessions.EnsureSession(ctx, ownerID, session)
	}

	if c.AgentID != "" {
		return s.cfg.Agents.StartSession(ctx, ownerID, prodagent.Start{
			SessionID: session.ID, Class: session.Class, ParentRun: session.ParentRun, AgentID: c.AgentID, Intent: session.Intent,
			Model: session.Model, Budget: session.Setup.Budget,
		})
	}

	if c.Skill != "" {
		id, err := s.cfg.Production.SkillID(ctx, ownerID, c.Skill)
		if err != nil {
			return err
		}

		session.PrimarySkillID = &id
	}

	return s.cfg.Sessions.EnsureSession(ctx, ownerID, session)
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }

// messageOf returns the session of a unit's attempt, and what is sent to it. Limit is the longest
// time that the code of a node may take.
func messageOf(work dagrun.Work, limit time.Duration) (session domain.NewSession, send domain.Send, err error) {
	u, n := work.Unit, work.Node
	c := configOf(n)
	text := ""

	switch {
	case u.Phase == dagrun.PhaseApproval:
		text = "Approve the start of node " + cmp.Or(n.Name, n.ID) + "?"
		session.Setup.Script, err = question("Approval", text, []string{dagrun.Approve, dagrun.Reject})
	case n.Type == dag.Human:
		text = work.Request.Prompt
		session.Setup.Script, err = question("", text, c.Options)
	case n.Type == dag.Tool, n.Type.Repeats() && c.Tool != "":
		text = "Run the tool " + c.Tool + "."
		session.Setup.Script, err = call(c.Tool, work.Request.Arguments)
	case n.Type == dag.Code:
		text = "Run the code of node " + cmp.Or(n.Name, n.ID) + "."
		session.Setup.Script, err = scriptOf(work, limit)
	default:
		text = work.Request.Message()

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

// escalationOf returns what becomes of a node's question that no user answers: of its approval,
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

// beginSubflow starts the run of the DAG that a node stands for.
func (s *Service) beginSubflow(ctx context.Context, work dagrun.Work) error {
	run := work.Run
	if run.Depth >= dagrun.MaxDepth {
		return domain.Newf(domain.Invalid, dagrun.CodeSubflowTooDeep, "subflows may be nested %d deep", dagrun.MaxDepth)
	}

	solutionID := configOf(work.Node).ProdSolutionID

	graph, version, ownerID, err := s.cfg.Production.RunnableDAG(ctx, domain.User{ID: run.OwnerID}, solutionID, 0)
	if err != nil {
		return err
	}

	inputs, err := json.Marshal(given(work.Request.Inputs))
	if err != nil {
		return fmt.Errorf("encode the inputs of a subflow: %w", err)
	}

	if err := checkInputs(graph, inputs); err != nil {
		return err
	}

	return s.CreateDAGRun(ctx, dagrun.New{
		ID: work.Unit.ChildID, SolutionID: solutionID, OwnerID: ownerID, Version: version, Trigger: dagrun.TriggerSubflow, Inputs: inputs,
		ParentRun: run.ID, Depth: run.Depth + 1, Nodes: graph.Order(),
	})
}

func given(inputs map[string]any) map[string]any {
	if inputs == nil {
		return map[string]any{}
	}

	return inputs
}

// StopNode implements contract.StopDAGNode: it stops the chat of an attempt, or cancels its
// subflow.
func (s *Service) StopNode(ctx context.Context, in contract.StopDAGNodeIn) (out struct{}, err error) {
	work, found, err := s.Stopping(ctx, in.UnitID)
	if err != nil || !found {
		return out, err
	}

	if err := s.stop(ctx, work); err != nil {
		return out, err
	}

	return out, s.Stopped(ctx, in.UnitID)
}

func (s *Service) stop(ctx context.Context, work dagrun.Work) error {
	u := work.Unit

	switch {
	case u.ChildID != "":
		return s.CancelAny(ctx, work.ChildSolution, u.ChildID)
	case u.SessionID == "":
		return nil
	}

	_, err := s.cfg.Chats.Stop(ctx, caller(work.Run.OwnerID), u.SessionID, true)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	return err
}
