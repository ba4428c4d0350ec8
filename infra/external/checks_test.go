package external

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestCheckClock(t *testing.T) {
	t.Parallel()

	before := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	after := before.Add(time.Second)

	for name, test := range map[string]struct {
		server time.Time
		says   string // empty: the clocks agree
	}{
		"same":               {before, ""},
		"within the request": {after, ""},
		"2 s behind":         {before.Add(-2 * time.Second), ""},
		"2 s ahead":          {after.Add(2 * time.Second), ""},
		"3 s behind":         {before.Add(-3 * time.Second), "differs by 3s from this machine's"},
		"3 s ahead":          {after.Add(3 * time.Second), "differs by 3s from this machine's"},
		"30 s behind":        {before.Add(-30 * time.Second), "differs by 30s from this machine's"},
		"30 s ahead":         {after.Add(30 * time.Second), "differs by 30s from this machine's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := checkClock(test.server, before, after)
			if test.says == "" {
				require.Nil(t, result)
				return
			}

			require.Equal(t, domain.CheckWarn, result.Status)
			require.Equal(t, test.says, result.Message)
			require.Contains(t, result.Hint, "NTP")
		})
	}
}

func TestCheckStandbys(t *testing.T) {
	t.Parallel()

	require.Equal(t, domain.CheckOK, checkStandbys("version 17", 0, "").Status)
	require.Equal(t, domain.CheckOK, checkStandbys("version 17", 1, "ANY 1 (*)").Status)

	result := checkStandbys("version 17", 1, "")
	require.Equal(t, domain.CheckFail, result.Status)
	require.Contains(t, result.Hint, "synchronous_standby_names")
}
