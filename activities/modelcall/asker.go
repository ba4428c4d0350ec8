package modelcall

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"everloop/activities/prompt"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/model"
	"everloop/infra/postgres/conversation"
)

// Asker puts the questions of tools to the model of their chat: one call without
// tools, apart from the conversation (docs/web.md#webfetch).
type Asker struct {
	Models   *model.Client
	Accounts *conversation.Base
	Logger   *slog.Logger
}

// Ask implements tools.Asker.
func (a *Asker) Ask(ctx context.Context, q tools.ModelQuery) (string, error) {
	requested, err := a.Accounts.ChatModel(ctx, q.SessionID, q.ChatID)
	if err != nil {
		return "", err
	}

	model, err := a.Models.Resolve(ctx, requested)
	if err != nil {
		return "", modelTrouble(err)
	}

	reply, err := a.Models.Stream(ctx, domain.Prompt{
		Model: model.ID, Messages: []domain.PromptMessage{prompt.Text("system", q.System), prompt.Text("user", q.Text)},
	}, func(domain.Delta) error { return nil },
		attribute.String("everloop.session_id", string(q.SessionID)), attribute.String("everloop.chat_id", string(q.ChatID)))
	a.count(ctx, q, model, reply.Usage)

	if err != nil {
		return "", modelTrouble(err)
	}

	if strings.TrimSpace(reply.Text) == "" {
		return "", domain.Newf(domain.Conflict, domain.CodeModelUnavailable, "the model gave no answer")
	}

	return reply.Text, nil
}

// count adds what a call has used, also of one that failed and of a caller that has gone.
// A count that is lost is no reason to lose the answer.
func (a *Asker) count(ctx context.Context, q tools.ModelQuery, model domain.Model, used domain.Usage) {
	if used.Tokens() == 0 {
		return
	}

	err := a.Accounts.CountUsage(context.WithoutCancel(ctx), q.SessionID, q.ChatID, model.ID, model.Price.Charge(used))
	if err != nil {
		a.Logger.Warn("failed to count the tokens of an auxiliary model call", "session_id", q.SessionID, "chat_id", q.ChatID, "error", err)
	}
}

// modelTrouble puts what can go wrong with a model into words that a tool may pass on.
func modelTrouble(err error) error {
	fault, ok := errors.AsType[*domain.ModelError](err)
	switch {
	case !ok:
		return err
	case fault.Fault == domain.FaultContextOverflow:
		return domain.Newf(domain.Conflict, domain.CodeContextOverflow, "the text is too long for the model")
	case fault.Fault == domain.FaultQuota:
		return domain.Newf(domain.Conflict, domain.CodeModelQuota, "the account at the model server has no credit or quota left")
	case fault.Fault == domain.FaultRateLimited:
		return domain.Newf(domain.Conflict, domain.CodeModelRetry, "the model takes no more calls at the moment")
	case fault.Retryable():
		return domain.Newf(domain.Conflict, domain.CodeModelUnavailable, "the model is not available at the moment")
	default:
		return domain.Newf(domain.Conflict, domain.CodeModelRefused, "the model refused the question")
	}
}
