package main

import (
	"context"

	"everloop/activities"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/inbox"
	"everloop/infra/postgres"
)

// compactions is where clients ask for a summary of a session's history.
func (b *backend) compactions() *inbox.Compactions {
	return &inbox.Compactions{Records: b.db, Runs: b.runs, Logger: b.logger}
}

// contexts tells what the next model call of a session is told: it puts prompts
// together as the worker does, and calls no model.
type contexts struct {
	*activities.Activities
	*postgres.DB
}

func (b *backend) contexts(registry *tools.Registry) contexts {
	return contexts{&activities.Activities{
		Turns: b.journal, Models: b.models, Tools: registry, Profiles: b, Tokens: b.tokens, Compactions: b.journal, Logger: b.logger,
	}, b.db}
}

// recalled finds the memories of a session's owner.
type recalled struct{ db *postgres.DB }

// Recall implements activities.Memories.
func (r recalled) Recall(ctx context.Context, session domain.Session, query string) ([]domain.RecalledMemory, error) {
	return r.db.RecallMemories(ctx, session.OwnerID, query)
}
