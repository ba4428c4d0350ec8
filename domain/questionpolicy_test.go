package domain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuestionPolicy_Times(t *testing.T) {
	t.Parallel()

	asked := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

	at := func(seconds int) *time.Time {
		then := asked.Add(time.Duration(seconds) * time.Second)
		return &then
	}
	for name, c := range map[string]struct {
		policy *QuestionPolicy
		want   QuestionTimes
	}{
		"no policy":         {nil, QuestionTimes{}},
		"empty policy":      {&QuestionPolicy{}, QuestionTimes{}},
		"the model chooses": {&QuestionPolicy{TimeoutS: 60}, QuestionTimes{ExpiresAt: at(60), DefaultPolicy: PolicyChoose}},
		"the first option": {
			&QuestionPolicy{TimeoutS: 60, OnTimeout: PolicyFirstOption},
			QuestionTimes{ExpiresAt: at(60), DefaultPolicy: PolicyFirstOption},
		},
		"escalation alone": {&QuestionPolicy{EscalateAfterS: 5, OnTimeout: PolicyFirstOption}, QuestionTimes{EscalateAt: at(5)}},
		"escalation before": {
			&QuestionPolicy{TimeoutS: 60, EscalateAfterS: 5},
			QuestionTimes{ExpiresAt: at(60), DefaultPolicy: PolicyChoose, EscalateAt: at(5)},
		},
		"escalation too late": {
			&QuestionPolicy{TimeoutS: 60, EscalateAfterS: 60},
			QuestionTimes{ExpiresAt: at(60), DefaultPolicy: PolicyChoose},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.policy.Times(asked))
		})
	}
}

func TestQuestionPolicy_Valid(t *testing.T) {
	t.Parallel()
	require.True(t, (*QuestionPolicy)(nil).Valid())
	require.True(t, (&QuestionPolicy{TimeoutS: MaxQuestionWaitS, OnTimeout: PolicyChoose}).Valid())
	require.False(t, (&QuestionPolicy{TimeoutS: MaxQuestionWaitS + 1}).Valid())
	require.False(t, (&QuestionPolicy{EscalateAfterS: -1}).Valid())
	require.False(t, (&QuestionPolicy{OnTimeout: "never"}).Valid())
}
