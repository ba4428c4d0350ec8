package modelretry

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestPolicy_Limit(t *testing.T) {
	t.Parallel()

	retry := Policy{For: time.Minute, Unattended: time.Hour}
	for trigger, want := range map[domain.Trigger]time.Duration{
		domain.TriggerUser: time.Minute, domain.TriggerAnswer: time.Minute, domain.TriggerAPI: time.Minute,
		domain.TriggerWhatif:   time.Minute,
		domain.TriggerSchedule: time.Hour, domain.TriggerDAG: time.Hour, domain.TriggerIssue: time.Hour,
	} {
		require.Equal(t, want, retry.Limit(trigger, domain.SessionSetup{}), trigger)
		require.Equal(t, 7*time.Second, retry.Limit(trigger, domain.SessionSetup{MaxModelRetryS: 7}), trigger)
	}
}

func TestJudge_pause(t *testing.T) {
	t.Parallel()

	const limit = 10 * time.Minute

	down := &domain.ModelError{Fault: domain.FaultTransient, Status: 503, Message: "down"}
	want := firstPause

	for n := range 20 {
		v := Judge(down, domain.ModelFaults{Count: n}, limit)
		require.True(t, v.Fault)
		require.False(t, v.Final)
		require.Equal(t, want, v.Wait, "fault %d", n+1)
		require.Equal(t, "transient, status 503", v.Kind)

		want = min(2*want, maxPause)
	}

	for name, tc := range map[string]struct {
		faults     domain.ModelFaults
		retryAfter time.Duration
		wait       time.Duration
		final      bool
	}{
		"longer Retry-After":        {domain.ModelFaults{}, 9 * time.Minute, 9 * time.Minute, false},
		"shorter Retry-After":       {domain.ModelFaults{Count: 20}, time.Millisecond, maxPause, false},
		"Retry-After beyond limit":  {domain.ModelFaults{}, 11 * time.Minute, 0, true},
		"Retry-After beyond rest":   {domain.ModelFaults{Count: 1, Age: 5 * time.Minute}, 6 * time.Minute, 0, true},
		"last call at end of limit": {domain.ModelFaults{Count: 20, Age: limit - 10*time.Second}, 0, 10 * time.Second, false},
		"limit passed":              {domain.ModelFaults{Count: 9, Age: limit}, 0, 0, true},
		"many faults":               {domain.ModelFaults{Count: 1 << 30}, 0, maxPause, false},
		"answers that were charged": {domain.ModelFaults{Count: 1, Paid: MaxPaid}, 0, 0, true},
	} {
		fault := *down
		fault.RetryAfter = tc.retryAfter
		v := Judge(&fault, tc.faults, limit)
		require.Equal(t, tc.final, v.Final, name)
		require.Equal(t, tc.wait, v.Wait, name)
	}
}

func TestJudge_kindOfError(t *testing.T) {
	t.Parallel()

	const limit = time.Hour

	for name, tc := range map[string]struct {
		cause        error
		faults       domain.ModelFaults
		final, fault bool
		code         string
	}{
		"rate limit": {
			&domain.ModelError{Fault: domain.FaultRateLimited}, domain.ModelFaults{}, false, true, domain.CodeModelUnavailable,
		},
		"refusal": {&domain.ModelError{Fault: domain.FaultRefused}, domain.ModelFaults{}, true, false, domain.CodeModelRefused},
		"quota":   {&domain.ModelError{Fault: domain.FaultQuota}, domain.ModelFaults{}, true, false, domain.CodeModelQuota},
		"engine": {
			domain.Unavailablef("the database", errors.New("refused")), domain.ModelFaults{}, false, false, domain.CodeServiceDown,
		},
		"invalid":        {domain.Newf(domain.Invalid, "bad", "bad"), domain.ModelFaults{}, true, false, "bad"},
		"bug":            {errors.New("nil map"), domain.ModelFaults{}, false, true, domain.CodeInternal},
		"bug every time": {errors.New("nil map"), domain.ModelFaults{Count: maxInternalFaults - 1}, true, false, domain.CodeInternal},
	} {
		v := Judge(tc.cause, tc.faults, limit)
		require.Equal(t, tc.final, v.Final, name)
		require.Equal(t, tc.fault, v.Fault, name)
		require.Equal(t, tc.code, v.Code, name)
	}

	v := Interrupted(errors.New("the worker is shutting down"), time.Second)
	require.False(t, v.Final || v.Fault)
	require.Equal(t, domain.CodeModelRetry, v.Code)
}
