package activities

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// Asker puts the questions of tools to the model of their chat: one call without
// tools, apart from the conversation (decisions.md section 8, number 12).
type Asker struct {
	Models   Models
	Accounts Accounts
	Logger   *slog.Logger
}

// Accounts knows what model a chat has and what it has used.
type Accounts interface {
	// ChatModel gives the model that a chat names; empty when it names none.
	ChatModel(ctx context.Context, sessionID, chatID string) (string, error)
	// CountUsage adds what a model call that is no turn has used to its chat and to
	// its session's budget.
	CountUsage(ctx context.Context, sessionID, chatID string, usage domain.Usage, cost float64) error
}

// Ask implements tools.Asker.
func (a *Asker) Ask(ctx context.Context, e tools.Enquiry) (string, error) {
	requested, err := a.Accounts.ChatModel(ctx, e.SessionID, e.ChatID)
	if err != nil {
		return "", err
	}
	model, err := a.Models.Resolve(ctx, requested)
	if err != nil {
		return "", modelTrouble(err)
	}
	reply, err := a.Models.Stream(ctx, domain.Prompt{
		Model: model.ID, Messages: []domain.PromptMessage{text("system", e.System), text("user", e.Text)},
	}, func(domain.Delta) error { return nil })
	if err != nil {
		return "", modelTrouble(err)
	}
	// The answer is there, so what it cost is counted even if nobody waits for it
	// any more; a count that is lost is no reason to lose the answer.
	if err := a.Accounts.CountUsage(context.WithoutCancel(ctx), e.SessionID, e.ChatID, reply.Usage, model.Price.Of(reply.Usage)); err != nil {
		a.Logger.Warn("tokens of an auxiliary model call were not counted", "session_id", e.SessionID, "chat_id", e.ChatID, "error", err)
	}
	if strings.TrimSpace(reply.Text) == "" {
		return "", domain.Newf(domain.Conflict, CodeModelUnavailable, "the model gave no answer")
	}
	return reply.Text, nil
}

// modelTrouble puts what can go wrong with a model into words that a tool may pass on.
func modelTrouble(err error) error {
	fault, ok := errors.AsType[*domain.ModelError](err)
	switch {
	case !ok:
		return err
	case fault.Fault == domain.FaultContextOverflow:
		return domain.Newf(domain.Conflict, CodeContextOverflow, "the text is too long for the model")
	case fault.Fault == domain.FaultRateLimited:
		return domain.Newf(domain.Conflict, CodeModelRetry, "the model takes no more calls at the moment")
	case fault.Retryable():
		return domain.Newf(domain.Conflict, CodeModelUnavailable, "the model is not available at the moment")
	default:
		return domain.Newf(domain.Conflict, CodeModelRefused, "the model refused the question")
	}
}
