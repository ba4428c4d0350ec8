package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
)

// flagged is a result with its flags, as versions before 2611.0.0 read and wrote it.
type flagged struct {
	EntryID  domain.TurnID            `json:"entry_id"`
	Stopped  bool                     `json:"stopped,omitempty"`
	Queued   bool                     `json:"queued,omitempty"`
	Ended    bool                     `json:"ended,omitempty"`
	Next     bool                     `json:"next,omitempty"`
	Calls    []contract.ToolCall      `json:"calls,omitempty"`
	Asked    int                      `json:"asked,omitempty"`
	Again    bool                     `json:"again,omitempty"`
	Mismatch bool                     `json:"mismatch,omitempty"`
	Behind   bool                     `json:"behind,omitempty"`
	Finish   domain.FinishReason      `json:"finish,omitempty"`
	Message  string                   `json:"message,omitempty"`
	Compact  domain.CompactionTrigger `json:"compact,omitempty"`
	Wait     *contract.Wait           `json:"wait,omitempty"`
}

// resultsByFlags pairs the results of earlier versions with those of this one.
func resultsByFlags() map[string]struct {
	before flagged
	now    contract.CallModelOut
} {
	calls := []contract.ToolCall{{ID: "c", Name: "Bash", Summary: "Bash: ls"}}
	wait := &contract.Wait{MS: 5, Summary: "Model unavailable"}

	return map[string]struct {
		before flagged
		now    contract.CallModelOut
	}{
		"completed": {flagged{EntryID: "t"}, contract.CallModelOut{EntryID: "t", Outcome: contract.OutcomeCompleted}},
		"calls": {
			flagged{Again: true, Calls: calls, Asked: 1}, contract.CallModelOut{Outcome: contract.OutcomeContinue, Calls: calls, Asked: 1},
		},
		"pending calls": {
			flagged{Behind: true, Calls: calls}, contract.CallModelOut{Outcome: contract.OutcomePendingCalls, Calls: calls},
		},
		"queued":      {flagged{Queued: true}, contract.CallModelOut{Outcome: contract.OutcomeQueued}},
		"retry later": {flagged{Wait: wait}, contract.CallModelOut{Outcome: contract.OutcomeRetryLater, Wait: wait}},
		"needs compaction": {
			flagged{Compact: domain.CompactAuto},
			contract.CallModelOut{Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactAuto},
		},
		"stopped": {flagged{Stopped: true}, contract.CallModelOut{Outcome: contract.OutcomeStopped}},
		"limit reached": {
			flagged{Finish: domain.FinishBudgetExhausted, Message: "spent"},
			contract.CallModelOut{Outcome: contract.OutcomeLimitReached, Reason: domain.FinishBudgetExhausted, Message: "spent"},
		},
		"schema mismatch": {flagged{Mismatch: true}, contract.CallModelOut{Outcome: contract.OutcomeSchemaMismatch}},
		"chat ended": {
			flagged{Ended: true, Next: true, Finish: domain.FinishCompleted},
			contract.CallModelOut{Outcome: contract.OutcomeChatEnded, Next: true, Reason: domain.FinishCompleted},
		},
		"chat ended by a stop": {
			flagged{Ended: true, Stopped: true, Finish: domain.FinishInterrupted},
			contract.CallModelOut{Outcome: contract.OutcomeChatEnded, Reason: domain.FinishInterrupted},
		},
	}
}

func TestCallModelOut_readsFlagsOfEarlierVersions(t *testing.T) {
	t.Parallel()

	for name, tc := range resultsByFlags() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tc.before.Ended {
				tc.before.Finish = "" // of a chat that had ended it was not set
			}

			raw, err := json.Marshal(tc.before)
			require.NoError(t, err)

			var now contract.CallModelOut
			require.NoError(t, json.Unmarshal(raw, &now))
			require.Equal(t, tc.now, now)
		})
	}
}

func TestCallModelOut_isReadByEarlierVersions(t *testing.T) {
	t.Parallel()

	for name, tc := range resultsByFlags() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			raw, err := json.Marshal(tc.now)
			require.NoError(t, err)

			var before flagged
			require.NoError(t, json.Unmarshal(raw, &before))
			require.Equal(t, tc.before, before)

			var now contract.CallModelOut
			require.NoError(t, json.Unmarshal(raw, &now))
			require.Equal(t, tc.now, now)
		})
	}
}

// With several flags, the one that counted before counts now.
func TestCallModelOut_precedenceOfFlags(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		raw  string
		want contract.Outcome
	}{
		"stopped, with another try": {`{"stopped":true,"again":true}`, contract.OutcomeStopped},
		"stuck, with calls":         {`{"finish":"stuck_detected","again":true}`, contract.OutcomeLimitReached},
		"ended, with a stop":        {`{"ended":true,"stopped":true}`, contract.OutcomeChatEnded},
		"mismatch at the last":      {`{"mismatch":true,"again":true}`, contract.OutcomeSchemaMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var out contract.CallModelOut
			require.NoError(t, json.Unmarshal([]byte(tc.raw), &out))
			require.Equal(t, tc.want, out.Outcome)
		})
	}
}
