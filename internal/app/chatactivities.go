package app

import (
	"context"
	"time"

	"everloop/activities"
	"everloop/activities/compaction"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/domain/speech"
	"everloop/infra/metrics"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/toolbox"
	"everloop/service/history"
	"everloop/worker"
)

// newChatSteps returns the activities of chats for the worker.
func (b *backend) newChatSteps(
	registry *tools.Registry,
	types *agents.Agents,
	files toolbox.Files,
	counts *metrics.Worker,
) worker.Chats {
	s := b.settings

	acts := &activities.Activities{
		Chats: b.store, Turns: b.store, Ledger: b.store, Forks: b.store, Sizes: b.store,
		Failovers: func() int { return b.DB.Failovers() },
		Log:       b.Log, Stops: b.Signals, Models: b.models, Tokens: b.tokens,
		Images:       objects.NewImageCache(b.Objects.DataURL, objects.DefaultImageCache),
		ResultImages: b.Objects,
		Tools:        registry,
		Agents:       types,
		Workspaces:   files,
		Profiles:     b,
		Environment:  b.buckets,
		Captures:     b.history,

		DrainTime:  s.drainTime(),
		ForkLimits: s.forkLimits(), ModelRetry: s.modelRetry(), ParallelTools: s.ParallelTools, SummaryNames: s.Summaries == summaryNames,
		Metrics: counts, Tracer: b.tracing.Work(), Logger: b.logger,
	}
	if b.speech != nil {
		acts.Speech, acts.Recordings = b.speech, messageRecordings{b.store, b.Objects}
	}

	acts.Memories = b.memories()

	return worker.Chats{Activities: acts, Compaction: b.newCompactor(registry)}
}

// messageRecordings are the recordings of messages: their turns in the database, their
// content in the object store.
type messageRecordings struct {
	*postgres.Store
	objects *objects.Store
}

// Recording implements activities.Recordings.
func (r messageRecordings) Recording(ctx context.Context, object string) (speech.Recording, error) {
	return r.objects.Recording(ctx, object)
}

// newCompactor returns what summarises and measures the contexts of sessions.
func (b *backend) newCompactor(registry *tools.Registry) *compaction.Compactor {
	return &compaction.Compactor{
		Store: b.store.Transcripts(), Models: b.models, Tokens: b.tokens, Tools: registry, Profile: b.Profile, Signals: b.Signals,
		Retry: b.settings.modelRetry(), DrainTime: b.settings.drainTime(), Logger: b.logger,
	}
}

// drainTime is how long model calls continue when their worker stops. The rest of
// StopTimeout is for the turns that are broken off.
func (s *settings) drainTime() time.Duration { return s.StopTimeout * 9 / 10 }

// contexts counts the tokens of a session's next model call: it assembles prompts as the
// worker does, with the tools that sessions are shown, and calls no model.
type contexts struct {
	*compaction.Compactor
	*postgres.DB
}

func (b *backend) newContexts(shown shownTools) contexts {
	return contexts{b.newCompactor(shown.registry), b.DB}
}

// standing returns the tokens that the system prompt and the tools take of each prompt, and
// the model that it counts for. Skills are offered by a tool, so they count as one.
func (c contexts) standing(ctx context.Context, session domain.Session) (system, tools int, model string, err error) {
	stats, err := c.ContextStats(ctx, session)
	for _, category := range stats.Categories {
		switch category.Name {
		case "system_prompt":
			system = int(category.Tokens)
		case "tools", "skills":
			tools += int(category.Tokens)
		}
	}

	return system, tools, stats.Model, err
}

// pastOf adds the tokens of the prompt to the histories of sessions.
type pastOf struct {
	*history.Service
	contexts contexts
}

// Tree returns the conversation tree of a session. The tree has no tokens of the prompt
// when the model server is unavailable: the past can be read without it.
func (p pastOf) Tree(ctx context.Context, session domain.Session) (domainhistory.History, error) {
	tree, err := p.Service.Tree(ctx, session.ID)
	if err != nil {
		return tree, err
	}

	tree.SystemPromptTokens, tree.ToolsTokens, tree.TokenizerModel, err = p.contexts.standing(ctx, session)
	if err != nil {
		p.contexts.Logger.Warn("failed to count the tokens of the prompt", "session_id", session.ID, "error", err)
	}

	return tree, nil
}

// provideMemory offers the tool Memory, where this installation has memories.
func (b *backend) provideMemory(registry *tools.Registry) {
	if b.settings.MemoryEnabled {
		registry.Provide(builtin.NewMemoryTool(b.DB))
	}
}

// memories finds the memories of chats; nil: none are recalled.
func (b *backend) memories() activities.Memories {
	if !b.settings.MemoryEnabled {
		return nil
	}

	return ownerMemories{b.DB}
}

// ownerMemories finds the memories of a session's owner.
type ownerMemories struct{ db *postgres.DB }

// Recall implements activities.Memories.
func (m ownerMemories) Recall(ctx context.Context, session domain.Session, query string) ([]domain.RecalledMemory, error) {
	return m.db.RecallMemories(ctx, session.OwnerID, query)
}
