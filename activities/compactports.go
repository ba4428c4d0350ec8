package activities

import (
	"context"

	"everloop/domain"
)

// Compactions stores the compactions of sessions. Closing ends one once, whichever attempt
// asks.
type Compactions interface {
	Weigh(ctx context.Context, key domain.TurnKey) (domain.ContextWeight, error)
	OpenCompaction(ctx context.Context, req domain.CompactionRequest) (domain.OpenedCompaction, error)
	AdvanceCompaction(ctx context.Context, id string, work domain.CompactionWork) error
	// DelayCompaction records that a summary waits for its model, and emits it.
	DelayCompaction(ctx context.Context, chatID domain.ChatID, c domain.OpenedCompaction, waiting domain.WaitingReason) error
	CloseCompaction(ctx context.Context, done domain.ClosingCompaction) (result domain.CompactionResult, exhausted bool, err error)
}

// Memories finds what is worth knowing for a session and a question.
type Memories interface {
	Recall(ctx context.Context, session domain.Session, query string) ([]domain.RecalledMemory, error)
}
