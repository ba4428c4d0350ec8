package app

import (
	"context"
	"time"

	"everloop/activities/compaction"
	"everloop/activities/modelcall"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/metrics"
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

	return worker.NewChats(worker.ChatConfig{
		Conversation: b.store.ChatStore(), Transcripts: b.store.Transcripts(), Failovers: func() int { return b.DB.Failovers() },
		Log: b.Log, Signals: b.Signals, Objects: b.Objects, Models: b.models, Tokens: b.tokens, Speech: b.speech, Recall: b.recall(),
		Captures: b.history, Tools: registry, Agents: types, Root: files.Root, Profile: b.Profile, Env: b.buckets.ToolEnv,
		Retry: s.modelRetry(), ForkLimits: s.forkLimits(), ParallelTools: s.ParallelTools, SummaryNames: s.Summaries == summaryNames,
		DrainTime: s.drainTime(), Metrics: counts, Tracing: b.tracing, Logger: b.logger,
	})
}

// newCompactor returns what summarises and measures the contexts of sessions.
func (b *backend) newCompactor(registry *tools.Registry) *compaction.Compactor {
	return &compaction.Compactor{
		Store: b.store.Transcripts(), Models: b.models, Tokens: b.tokens, Tools: registry, Profile: b.Profile, Signals: b.Signals,
		Retry: b.settings.modelRetry(), DrainTime: b.settings.drainTime(), Logger: b.logger,
	}
}

// drainTime returns how long model calls continue when their worker stops. The rest of
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
		registry.Provide(builtin.NewMemoryTool(b.memories))
	}
}

// recall returns what finds the memories of a session's owner; nil: none are recalled.
func (b *backend) recall() modelcall.Recall {
	if !b.settings.MemoryEnabled {
		return nil
	}

	return b.memories.RecallMemories
}
