package domain_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// A phase is one of queued, running and unknown_outcome for clients; what has a
// result has none, and is finished again when it is read.
func TestPhaseOfToolCalls(t *testing.T) {
	for phase, shown := range map[domain.CallPhase]string{
		domain.PhaseQueued: `"queued"`, domain.PhaseRunning: `"running"`, domain.PhaseUnknownOutcome: `"unknown_outcome"`, domain.PhaseFinished: `null`,
	} {
		raw, err := json.Marshal(domain.ToolCall{Phase: phase})
		require.NoError(t, err)
		require.Contains(t, string(raw), `"phase":`+shown)

		var back domain.ToolCall
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, phase, back.Phase)
	}
}
