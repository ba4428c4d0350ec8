package worker

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/worker"

	"everloop/activities/chat"
	"everloop/activities/compaction"
	"everloop/activities/contract"
	"everloop/activities/fastpath"
	"everloop/activities/modelcall"
	"everloop/activities/toolrun"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/transcripts"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/transcript"
	"everloop/infra/tokens"
	"everloop/infra/tracing"
)

// ChatConfig is what the activities of chats work with.
type ChatConfig struct {
	Conversation *conversation.Store
	Transcripts  *transcript.Store
	Failovers    func() int // of the database that this process has seen; nil: none
	Log          *events.Log
	Signals      *events.Signals
	Objects      *objects.Store
	Models       *model.Client
	Tokens       *tokens.Counter
	Speech       *model.Speech    // nil: recordings are not transcribed
	Recall       modelcall.Recall // nil: no memories are recalled
	Captures     toolrun.Captures // nil: files are not captured

	Tools   *tools.Registry
	Agents  *agents.Agents
	Root    toolrun.Root
	Profile func(domain.Session) domain.Profile
	Env     func(context.Context, domain.Session) (map[string]string, error)

	Retry         modelretry.Policy
	ForkLimits    domain.ForkLimits
	ParallelTools int  // 0: contract.DefaultParallelTools
	SummaryNames  bool // see modelcall.Plans
	NoFastPaths   bool // tests run both ways
	DrainTime     time.Duration

	Metrics *metrics.Worker
	Tracing *tracing.Tracing
	Logger  *slog.Logger
}

// NewChats returns the activities of chats.
func NewChats(cfg ChatConfig) Chats {
	cache := &transcripts.Cache{Read: cfg.Transcripts.Transcript, Failovers: cfg.Failovers}
	steps := &chat.Steps{
		Store: cfg.Conversation, Transcripts: cfg.Transcripts, Log: cfg.Log, Tools: cfg.Tools, ForkLimits: cfg.ForkLimits,
		Metrics: cfg.Metrics, Logger: cfg.Logger,
	}
	runner := &toolrun.Runner{
		Ledger: cfg.Conversation, Store: cfg.Conversation, Transcripts: cache, Log: cfg.Log, Signals: cfg.Signals, Tools: cfg.Tools,
		Root: cfg.Root, Profile: cfg.Profile, Env: cfg.Env, Captures: cfg.Captures, Images: cfg.Objects,
		Metrics: cfg.Metrics, Tracing: cfg.Tracing, Logger: cfg.Logger,
	}
	fast := &fastpath.Paths{Off: cfg.NoFastPaths, Tools: runner, Chat: steps, Parallel: cfg.ParallelTools, Logger: cfg.Logger}

	return Chats{
		Chat: steps, Tools: runner, Fast: fast,
		Speech: &chat.Transcriber{
			Speech: cfg.Speech, Store: cfg.Conversation, Objects: cfg.Objects, Signals: cfg.Signals, DrainTime: cfg.DrainTime,
			Logger: cfg.Logger,
		},
		Compaction: &compaction.Compactor{
			Store: cfg.Transcripts, Models: cfg.Models, Tokens: cfg.Tokens, Tools: cfg.Tools, Profile: cfg.Profile, Signals: cfg.Signals,
			Retry: cfg.Retry, DrainTime: cfg.DrainTime, Logger: cfg.Logger,
		},
		Model: &modelcall.Caller{
			Turns:       cfg.Conversation,
			Store:       cfg.Conversation,
			Transcripts: cfg.Transcripts,
			Cache:       cache,
			Log:         cfg.Log,
			Signals:     cfg.Signals,
			Models:      cfg.Models,
			Retry:       cfg.Retry,
			Profile:     cfg.Profile,
			Captures:    cfg.Captures,
			Chat:        steps,
			Fast:        fast,
			DrainTime:   cfg.DrainTime,
			Metrics:     cfg.Metrics,
			Logger:      cfg.Logger,
			Prompts: modelcall.Prompts{
				Tokens: cfg.Tokens, Images: objects.NewImageCache(cfg.Objects.DataURL, objects.DefaultImageCache), Recall: cfg.Recall,
				Speech: cfg.Speech != nil,
			},
			Plans: modelcall.Plans{
				Tools: cfg.Tools, Agents: cfg.Agents, ForkLimits: cfg.ForkLimits, Permissions: toolrun.Permissions{Root: cfg.Root},
				Env: cfg.Env, Parallel: cfg.ParallelTools, SummaryNames: cfg.SummaryNames,
			},
		},
	}
}

// Chats are the activities of chats.
type Chats struct {
	Chat       *chat.Steps
	Speech     *chat.Transcriber
	Model      *modelcall.Caller
	Tools      *toolrun.Runner
	Compaction *compaction.Compactor
	Fast       *fastpath.Paths
}

func (c Chats) register(w worker.Registry) {
	contract.BeginChat.Handle(w, c.Chat.Store.BeginChat)
	contract.ParkChat.Handle(w, c.Chat.Store.ParkChat)
	contract.CheckChat.Handle(w, c.Chat.Store.CheckChat)
	contract.FinishChat.Handle(w, c.Chat.FinishChat)
	contract.PauseFork.Handle(w, c.Chat.PauseFork)
	contract.EndFork.Handle(w, c.Chat.EndFork)
	contract.Transcribe.Handle(w, c.Speech.Transcribe)
	contract.CallModel.Handle(w, c.Model.CallModel)
	contract.CompactContext.Handle(w, c.Compaction.Compact)
	contract.FailCompaction.Handle(w, c.Compaction.Fail)
	contract.TryTool.Handle(w, c.Fast.TryTool)
	contract.RunTool.Handle(w, c.Tools.Run)
}

// Drain ends the tool calls that still run when the worker has stopped, and waits until
// their outcomes and all other work of chats are recorded, or ctx ends.
func (c Chats) Drain(ctx context.Context) {
	c.Tools.Drain(ctx)
	c.Model.Drain(ctx)
	c.Compaction.Drain(ctx)
	c.Speech.Drain(ctx)
}
