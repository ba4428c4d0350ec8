package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestDescribeLimits(t *testing.T) {
	t.Parallel()

	require.Equal(t, domain.CheckResult{Status: domain.CheckOK}, describeLimits(nil))

	refused := []domain.ModelLimit{
		{Model: "b", Kind: domain.LimitField, Subject: "stream_options"},
		{Model: "a", Kind: domain.LimitField, Subject: "reasoning"},
		{Model: "a", Kind: domain.LimitImage, SessionID: "s", Subject: "one"},
		{Model: "a", Kind: domain.LimitImage, SessionID: "s", Subject: "two"},
		{Model: "a", Kind: domain.LimitToolServer, SessionID: "s", Subject: "kit"},
	}
	got := describeLimits(refused)
	require.Equal(t, domain.CheckOK, got.Status)
	require.Equal(
		t,
		"; left out because their servers refused it: a: images of sessions (2), reasoning, tool servers of sessions (1); "+
			"b: stream_options",
		got.Message,
	)

	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	got = describeLimits([]domain.ModelLimit{
		{Model: "a", Kind: domain.LimitPrompt, Cut: domain.PromptCut{Reported: 2051, Estimated: 23560, At: at}},
	})
	require.Equal(t, domain.CheckWarn, got.Status)
	require.Equal(t, "; cut prompts: a reported 2051 tokens of about 23560 (2026-11-27T03:00:00Z)", got.Message)
	require.Contains(t, got.Hint, "OLLAMA_CONTEXT_LENGTH")
}
