package session

import (
	"context"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain"
	"everloop/domain/production"
	"everloop/infra/secrets"
	"everloop/infra/tokens"
	"everloop/realtime"
	"everloop/service/annotations"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions access.Sessions
	Roles    access.RoleCheck
	Views    sessiondetail.SessionViews
	Deleter  func(ctx context.Context, id domain.SessionID) error
	Streams  Streams
	Messages Messages
	// Image returns a picture or a recording of a session's messages.
	Image     func(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error)
	Chats     realtime.Chats
	Tasks     Tasks
	Compactor Compactor
	// ContextStats describes the prompt of a session's next model call.
	ContextStats func(ctx context.Context, session domain.Session) (domain.ContextStats, error)
	// CountCompactions counts the summaries that a branch shows.
	CountCompactions func(ctx context.Context, branchID domain.BranchID) (int, error)
	Tokens           *tokens.Counter
	Annotations      *annotations.Store
	// ProdSolution reads a production solution whose nodes are annotated; prod_solution_not_found.
	ProdSolution func(ctx context.Context, caller domain.User, id string) (production.Solution, error)
	History      History
	Replays      Replays
	Shares       Shares
	EnvBuckets   secrets.Buckets // whose secrets public links do not show
	Sharing      bool            // public links are enabled
	Transfers    Transfers
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	cfg := r.Config
	follower := Follower{r.Streams, a.Streams, a.Sessions.Store}
	transcripts := Transcripts{a.Messages, cfg.Logger}

	(&SessionsAPI{a.Sessions, a.Roles, a.Views, a.Deleter, cfg.Rights}).Register(r)
	(&MessagesAPI{a.Sessions, transcripts}).Register(r)
	(&AttachmentsAPI{a.Sessions, a.Image}).Register(r)
	(&ChatAPI{a.Sessions, follower, a.Chats}).Register(r)
	(&EventsAPI{a.Sessions, follower}).Register(r)
	(&TasksAPI{a.Sessions, a.Tasks}).Register(r)
	(&ContextAPI{a.Sessions, a.Compactor, a.ContextStats, a.CountCompactions, a.Tokens, a.Views.ModelFinder}).Register(r)
	(&AnnotationsAPI{a.Sessions, a.Annotations, a.ProdSolution}).Register(r)
	(&HistoryAPI{a.Sessions, a.History}).Register(r)
	(&ReplayAPI{a.Sessions, a.Replays}).Register(r)
	(&ShareAPI{a.Sessions, transcripts, a.Shares, a.Image, a.EnvBuckets, a.Sharing}).Register(r)
	(&ExtraInfoAPI{a.Sessions}).Register(r)
	(&TransferAPI{a.Sessions, a.Roles, a.Views, a.Transfers, cfg.Logger, cfg.Room}).Register(r)
}
