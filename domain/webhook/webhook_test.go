package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestNextDelivery_triesForADay(t *testing.T) {
	t.Parallel()

	total, tries := time.Duration(0), 0
	for {
		tries++

		pause, more := NextDelivery(tries, 0)
		if !more {
			break
		}

		require.Positive(t, pause)
		total += pause
	}

	require.Equal(t, 11, tries)
	require.InDelta(t, 24*time.Hour, total, float64(time.Hour))

	pause, _ := NextDelivery(1, time.Minute)
	require.Equal(t, time.Minute, pause, "the endpoint asks for more")
	pause, _ = NextDelivery(1, 48*time.Hour)
	require.Equal(t, 2*time.Hour, pause, "but not for that much")

	_, more := NextDelivery(0, 0)
	require.False(t, more)
}

func TestEndpointPause(t *testing.T) {
	t.Parallel()

	for failures, want := range map[int]time.Duration{
		1: 2 * time.Second, 2: 4 * time.Second, 5: 32 * time.Second, 9: 5 * time.Minute, 1_000_000: 5 * time.Minute,
	} {
		require.Equal(t, want, EndpointPause(failures), failures)
	}
}

func TestChatWebhookEvent(t *testing.T) {
	t.Parallel()

	for reason, want := range map[domain.FinishReason]Event{
		domain.FinishAwaitingAnswer: ChatWaiting, domain.FinishCompleted: ChatCompleted, domain.FinishInterrupted: ChatInterrupted,
		domain.FinishBudgetExhausted: BudgetExhausted, domain.FinishFailed: ChatFailed, domain.FinishSchemaMismatch: ChatFailed,
	} {
		require.Equal(t, want, ChatEvent(reason), reason)
	}
}
