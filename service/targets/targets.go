// Package targets starts what scheduled tasks and triggers are for: chats, runs of DAGs and issues.
// It calls the services of these with the rights of the owner, who may have lost them since the
// task or trigger was stored.
package targets

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/dagrun"
	"everloop/domain/prodagent"
	"everloop/domain/target"
	"everloop/service/agents"
	boards "everloop/service/board"
	"everloop/service/dagruns"
)

// Chats sends messages.
type Chats interface {
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
}

// Deps are the dependencies of New. All are required.
type Deps struct {
	Chats  Chats
	Agents *agents.Service
	DAGs   *dagruns.Service
	Board  *boards.Service
}

// Service starts targets, stops them and reads their ends.
type Service struct{ deps Deps }

// New returns a new service.
func New(deps Deps) *Service { return &Service{deps} }

// Request is a target to start.
type Request struct {
	OwnerID string
	Parent  string // what starts it: task/<id> or trigger/<id>
	Key     string // requests with the same parent and key start one thing
	Target  target.Target
	Values  target.Values // of the references in its texts
	Title   string        // of a session, and of an issue whose target has no title
	Waiter  string        // the workflow that is signalled when what was started has ended; empty: none
	// Session and Send configure the session and the message of a prompt or an agent. The id of the
	// session, its intent, and the message are set here when they are empty.
	Session domain.NewSession
	Send    domain.Send
}

// Start starts a target, once for each key, and returns what was started. The error has the code of
// the service that rejected it.
func (s *Service) Start(ctx context.Context, in Request) (target.Started, error) {
	filled := in.Target.Filled(in.Values)

	switch in.Target.Kind {
	case target.DAG:
		return s.startDAG(ctx, in, filled)
	case target.Issue:
		return s.createIssue(ctx, in, filled)
	default:
		return s.sendPrompt(ctx, in, filled)
	}
}

// Check rejects a target that the owner could not start now.
func (s *Service) Check(ctx context.Context, in Request) error {
	filled := in.Target.Filled(in.Values)

	switch in.Target.Kind {
	case target.Agent:
		_, err := s.deps.Agents.ProdAgentByName(ctx, in.OwnerID, filled.AgentID)
		return err
	case target.DAG:
		run, err := s.newRun(in, filled)
		if err == nil {
			_, err = s.deps.DAGs.Runnable(ctx, domain.User{ID: in.OwnerID}, &run)
		}

		return err
	case target.Issue:
		workspace, err := s.deps.Board.Workspace(ctx, in.OwnerID, filled.WorkspaceID)
		if err != nil {
			return err
		}

		return board.NeedsRole(workspace.Role, board.WorkspaceMember)
	default:
		return nil
	}
}

// Stop cancels a DAG run or the run on an issue. What has ended, or was never started, stays as it
// is. Chats are stopped by their service.
func (s *Service) Stop(ctx context.Context, started target.Started) error {
	switch started.Kind {
	case target.DAG:
		return s.deps.DAGs.CancelAny(ctx, started.SolutionID, started.RunID)
	case target.Issue:
		return s.deps.Board.StopIssue(ctx, started.IssueID)
	default:
		return nil
	}
}

// EndOf returns how a DAG run or the runs on an issue ended, and what they have used; false: they
// have not. An issue that is assigned to no agent has ended when it is created.
func (s *Service) EndOf(ctx context.Context, started target.Started) (domain.RunEnd, domain.Usage, bool, error) {
	if started.Kind == target.DAG {
		return s.deps.DAGs.EndOf(ctx, started.RunID)
	}

	return s.deps.Board.EndOfIssue(ctx, started.IssueID)
}

// id is the id of what a request starts. It is the same for each repetition.
func (in Request) id() string { return domain.DerivedID("start/" + in.Parent + "/" + in.Key) }

// Started returns the DAG run or the issue that the request starts, also before it is started.
func (in Request) Started() target.Started {
	started := target.Started{Kind: in.Target.Kind}

	switch started.Kind {
	case target.DAG:
		started.SolutionID, started.RunID = in.Target.SolutionID, in.id()
	case target.Issue:
		started.WorkspaceID, started.IssueID = in.Target.WorkspaceID, in.id()
	default: // a chat, whose session is in the request
	}

	return started
}

func (s *Service) newRun(in Request, filled target.Target) (dagrun.New, error) {
	inputs := filled.Inputs
	if inputs == nil {
		inputs = map[string]any{}
	}

	text, err := json.Marshal(inputs)
	trigger := dagrun.TriggerEvent

	if strings.HasPrefix(in.Parent, "task/") {
		trigger = dagrun.TriggerSchedule
	}

	return dagrun.New{
		ID: in.id(), SolutionID: filled.SolutionID, Version: filled.Version, Trigger: trigger, Inputs: text,
		StartedBy: in.Parent, Waiter: in.Waiter,
	}, err
}

func (s *Service) startDAG(ctx context.Context, in Request, filled target.Target) (target.Started, error) {
	run, err := s.newRun(in, filled)
	if err == nil {
		_, err = s.deps.DAGs.StartNew(ctx, domain.User{ID: in.OwnerID}, run)
	}

	return in.Started(), err
}

// Maximum lengths of an issue's texts, which filled references may exceed, without the ellipsis.
const maxIssueTitle, maxIssueText = 499, 19_999

func (s *Service) createIssue(ctx context.Context, in Request, filled target.Target) (target.Started, error) {
	title := domain.FirstRunes(cmp.Or(strings.TrimSpace(filled.Title), in.Title), maxIssueTitle)
	text := domain.FirstRunes(cmp.Or(filled.Description, filled.Prompt), maxIssueText)
	fields := board.IssueFields{
		ID: in.id(), StartedBy: in.Parent, Waiter: in.Waiter, Title: &title, Description: &text, Labels: filled.Labels,
	}

	if filled.Priority != "" {
		fields.Priority = &filled.Priority
	}

	if filled.AssigneeID != "" {
		fields.Assignee = &board.AssigneeRef{Type: filled.AssigneeType, ID: filled.AssigneeID}
	}

	if filled.Project != "" {
		fields.Project = board.Change[string]{Set: true, Value: &filled.Project}
	}

	_, err := s.deps.Board.CreateIssue(ctx, in.OwnerID, filled.WorkspaceID, fields)

	return in.Started(), err
}

func (s *Service) sendPrompt(ctx context.Context, in Request, filled target.Target) (target.Started, error) {
	in.Session.ID = cmp.Or(in.Session.ID, domain.SessionID(in.id()))
	in.Session.Intent = cmp.Or(in.Session.Intent, in.Title)
	in.Session.ParentRun = cmp.Or(in.Session.ParentRun, in.Parent)

	if in.Target.Kind == target.Session {
		in.Session.ID = filled.SessionID
	} else if err := s.ensureSession(ctx, in, filled); err != nil {
		return target.Started{}, err
	}

	send := in.Send
	send.SessionID, send.Waiter = in.Session.ID, in.Waiter
	send.ClientMessageID = cmp.Or(send.ClientMessageID, in.Parent+"/"+in.Key)
	send.Delivery = cmp.Or(send.Delivery, domain.DeliverEnqueue)

	if send.Message == nil {
		send.Message = []domain.ContentPart{{Type: "text", Text: filled.Prompt}}
	}

	ack, err := s.deps.Chats.Send(ctx, caller(in.OwnerID), send)

	return target.Started{Kind: in.Target.Kind, SessionID: in.Session.ID, ChatID: ack.ChatID}, err
}

// ensureSession creates the session of a prompt unless it exists.
func (s *Service) ensureSession(ctx context.Context, in Request, filled target.Target) error {
	session := in.Session
	if in.Target.Kind == target.Agent {
		return s.deps.Agents.StartSession(ctx, in.OwnerID, prodagent.Start{
			SessionID:         session.ID,
			AgentID:           filled.AgentID,
			Class:             session.Class,
			ParentRun:         session.ParentRun,
			Intent:            session.Intent,
			Model:             session.Model,
			Budget:            session.Setup.Budget,
			SkipConfirmations: session.Setup.SkipConfirmations,
			QuestionPolicy:    session.Setup.QuestionPolicy,
			WorkspaceID:       session.WorkspaceID,
		})
	}

	return s.deps.Agents.StartPlain(ctx, in.OwnerID, session)
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }
