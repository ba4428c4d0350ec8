package domain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestModelRetry_Limit(t *testing.T) {
	t.Parallel()

	retry := domain.ModelRetry{For: time.Minute, Unattended: time.Hour}
	for trigger, want := range map[domain.Trigger]time.Duration{
		domain.TriggerUser: time.Minute, domain.TriggerAnswer: time.Minute, domain.TriggerAPI: time.Minute,
		domain.TriggerWhatif:   time.Minute,
		domain.TriggerSchedule: time.Hour, domain.TriggerDAG: time.Hour, domain.TriggerIssue: time.Hour,
	} {
		require.Equal(t, want, retry.Limit(trigger, domain.SessionSetup{}), trigger)
		require.Equal(t, 7*time.Second, retry.Limit(trigger, domain.SessionSetup{MaxModelRetryS: 7}), trigger)
	}
}

func TestModelFaults_Pause(t *testing.T) {
	t.Parallel()

	const limit = 10 * time.Minute
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		wait, ok := domain.ModelFaults{Count: i}.Pause(limit, 0)
		require.True(t, ok)
		require.Equal(t, want*time.Second, wait, "fault %d", i+1)
	}

	for name, tc := range map[string]struct {
		faults     domain.ModelFaults
		retryAfter time.Duration
		wait       time.Duration
		ok         bool
	}{
		"the server's word is honoured in full":     {domain.ModelFaults{}, 9 * time.Minute, 9 * time.Minute, true},
		"the server's word is the least":            {domain.ModelFaults{Count: 6}, time.Second, time.Minute, true},
		"the server's word is beyond the limit":     {domain.ModelFaults{}, 11 * time.Minute, 0, false},
		"the server's word is beyond what is left":  {domain.ModelFaults{Count: 1, Age: 5 * time.Minute}, 6 * time.Minute, 0, false},
		"the last try comes at the end of the time": {domain.ModelFaults{Count: 9, Age: limit - 10*time.Second}, 0, 10 * time.Second, true},
		"the time is over":                          {domain.ModelFaults{Count: 9, Age: limit}, 0, 0, false},
		"many faults":                               {domain.ModelFaults{Count: 1 << 30}, 0, time.Minute, true},
	} {
		wait, ok := tc.faults.Pause(limit, tc.retryAfter)
		require.Equal(t, tc.ok, ok, name)
		require.Equal(t, tc.wait, wait, name)
	}
}
