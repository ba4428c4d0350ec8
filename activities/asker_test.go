package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities"
	"everloop/activities/tools"
	"everloop/domain"
)

// answering is a model server that gives one answer, or a fault.
type answering struct {
	reply domain.Reply
	err   error
	asked []domain.Prompt
}

func (a *answering) Resolve(_ context.Context, requested string) (domain.Model, error) {
	return domain.Model{ID: "resolved-" + requested}, nil
}

func (a *answering) Stream(_ context.Context, p domain.Prompt, onDelta func(domain.Delta) error) (domain.Reply, error) {
	a.asked = append(a.asked, p)
	if err := onDelta(domain.Delta{Text: a.reply.Text}); err != nil {
		return domain.Reply{}, err
	}

	return a.reply, a.err
}

func (a *answering) Models(context.Context) ([]domain.Model, error) { return nil, a.err }

func (*answering) PromptWasCut(context.Context, string, int64, int64) {}

type account struct {
	used domain.Usage
	err  error
}

func (a *account) ChatModel(_ context.Context, sessionID domain.SessionID, chatID domain.ChatID) (string, error) {
	return "model-of-" + string(sessionID) + "-" + string(chatID), nil
}

func (a *account) CountUsage(_ context.Context, _ domain.SessionID, _ domain.ChatID, _ string, usage domain.Usage) error {
	a.used = a.used.Add(usage)
	return a.err
}

func TestAsker_Ask_usesChatModelWithoutTools(t *testing.T) {
	t.Parallel()

	models := &answering{reply: domain.Reply{Text: "42", Usage: domain.Usage{InputTokens: 7, OutputTokens: 1}}}
	counted := &account{}
	asker := &activities.Asker{Models: models, Accounts: counted, Logger: slog.New(slog.DiscardHandler)}
	query := tools.ModelQuery{SessionID: "s", ChatID: "c", System: "You read.", Text: "What?"}
	answer, err := asker.Ask(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, "42", answer)
	require.Equal(t, domain.Usage{InputTokens: 7, OutputTokens: 1, UncostedTokens: 8}, counted.used)

	prompt := models.asked[0]
	require.Equal(t, "resolved-model-of-s-c", prompt.Model)
	require.Empty(t, prompt.Tools)
	require.Equal(t, []string{"system", "user"}, []string{prompt.Messages[0].Role, prompt.Messages[1].Role})
	require.Equal(t, "What?", prompt.Messages[1].Parts[0].Text)

	counted.err = errors.New("down")
	answer, err = asker.Ask(t.Context(), query)
	require.NoError(t, err, "a lost count is no reason to lose the answer")
	require.Equal(t, "42", answer)

	models.reply.Text = " "
	_, err = asker.Ask(t.Context(), query)
	require.ErrorContains(t, err, "no answer")
}

func TestAsker_Ask_explainsFaults(t *testing.T) {
	t.Parallel()

	for fault, words := range map[domain.ModelFault]string{
		domain.FaultContextOverflow: "too long for the model", domain.FaultRateLimited: "no more calls at the moment",
		domain.FaultTransient: "not available at the moment", domain.FaultRefused: "refused the question",
	} {
		models := &answering{err: &domain.ModelError{Fault: fault, Message: "http://10.0.0.1 says secret"}}
		asker := &activities.Asker{Models: models, Accounts: &account{}, Logger: slog.New(slog.DiscardHandler)}
		_, err := asker.Ask(t.Context(), tools.ModelQuery{})
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, domain.Conflict, domain.AsError(err).Kind, "a tool may pass it on")
	}
}
