package session

import (
	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions    access.Sessions
	Roles       access.RoleCheck
	Views       sessiondetail.SessionViews
	Deleter     access.Deleter
	Streams     Streams
	Messages    Messages
	Images      Images
	Chats       Chats
	Tasks       Tasks
	TaskLists   TaskStore
	Compactor   Compactor
	Contexts    Contexts
	Tokens      Tokens
	Annotations Annotations
	Solutions   AnnotatedSolutions
	History     History
	Replays     Replays
	Shares      Shares
	EnvBuckets  access.EnvBuckets // whose secrets public links do not show
	Sharing     bool              // public links are enabled
	ExtraInfos  ExtraInfos
	Transfers   Transfers
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	cfg := r.Config
	follower := Follower{r.Streams, a.Streams, cfg.Auth, a.Sessions.Store}
	transcripts := Transcripts{a.Messages, cfg.Logger}

	(&SessionsAPI{a.Sessions, a.Roles, a.Views, a.Deleter, cfg.Rights}).Register(r)
	(&MessagesAPI{a.Sessions, transcripts}).Register(r)
	(&AttachmentsAPI{a.Sessions, a.Images}).Register(r)
	(&ChatAPI{a.Sessions, follower, a.Chats}).Register(r)
	(&EventsAPI{a.Sessions, follower}).Register(r)
	(&TasksAPI{a.Sessions, a.Tasks, a.TaskLists}).Register(r)
	(&ContextAPI{a.Sessions, a.Compactor, a.Contexts, a.Tokens, a.Views.ModelFinder}).Register(r)
	(&AnnotationsAPI{a.Sessions, a.Annotations, a.Solutions}).Register(r)
	(&HistoryAPI{a.Sessions, a.History}).Register(r)
	(&ReplayAPI{a.Sessions, a.Replays}).Register(r)
	(&ShareAPI{a.Sessions, transcripts, a.Shares, a.Images, a.EnvBuckets, a.Sharing}).Register(r)
	(&ExtraInfoAPI{a.Sessions, a.ExtraInfos}).Register(r)
	(&TransferAPI{a.Sessions, a.Roles, a.Views, a.Transfers, cfg.Logger, cfg.Room}).Register(r)
}
