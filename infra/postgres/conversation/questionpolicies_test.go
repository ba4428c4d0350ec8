package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestBase_questionPolicies(t *testing.T) {
	t.Parallel()
	d := newDecisions(t)
	hook, err := d.store.CreateWebhook(t.Context(), d.owner, domain.NewID(), domain.WebhookSpec{
		URL: "https://hooks.example.org/", Events: []domain.WebhookEvent{domain.WebhookQuestionEscalated}, Enabled: true,
	}, []byte("sealed"))
	require.NoError(t, err)

	for id, call := range map[string]string{"due": "asks", "later": "asks more"} {
		d.set(
			`INSERT INTO questions (id, session_id, chat_id, entry_id, tool_call_id, loop_id, questions, expires_at, default_policy, escalate_at)
			VALUES ($1, $2, 'chat', 'turn of root', $3, 'root', '[{"question":"Which?"}]',
			        now() + CASE WHEN $1 = 'due' THEN interval '0' ELSE '1 hour' END,
			        'first_option', now() + CASE WHEN $1 = 'due' THEN interval '0' ELSE '1 hour' END)`,
			id,
			d.id,
			call,
		)
	}

	for _, want := range []int64{1, 0} {
		escalated, err := d.store.EscalateQuestions(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, escalated, "each once")
	}

	_, total, err := d.store.WebhookDeliveries(t.Context(), d.owner, hook.ID, "", "", 0, 1)
	require.NoError(t, err)
	require.Equal(t, 1, total)

	expired, err := d.store.ExpiredQuestions(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, []string{"due", d.owner, string(domain.PolicyFirstOption)},
		[]string{expired[0].ID, expired[0].OwnerID, string(*expired[0].DefaultPolicy)})
	d.set(`UPDATE questions SET state = 'answered' WHERE id = 'due'`)
	expired, err = d.store.ExpiredQuestions(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, expired, "an answer came first")

	session, call, err := d.store.InboxQuestion(t.Context(), d.owner, "due")
	require.NoError(t, err)
	require.Equal(t, []string{d.id, "asks"}, []string{session, call})
	_, _, err = d.store.InboxQuestion(t.Context(), "another user", "due")
	require.True(t, domain.HasCode(err, "question_not_found"))
}
