package dagrun_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/dagrun"
)

// A node with heartbeat_s is looked at when its activity is due. One that was found
// without is stopped, and tried again.
func TestRun_Advance_activity(t *testing.T) {
	t.Parallel()
	p := begin(t, `{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"},
		{"id":"a","type":"agent","config":{"prompt":"x"},"heartbeat_s":60,"retry":{"max_attempts":2}},
		{"id":"h","type":"human","config":{"prompt":"x"},"heartbeat_s":60}],
		"edges":[{"id":"1","source":"s","target":"a"},{"id":"2","source":"a","target":"z"},
		{"id":"3","source":"s","target":"h"},{"id":"4","source":"h","target":"z"}]}`, `{}`)
	a, h := p.run.Nodes["a"], p.run.Nodes["h"]

	p.step(nil)
	require.Equal(t, dagrun.Running, a.Status)
	require.Nil(t, h.DueAt, "a person may take their time")
	require.Equal(t, noon.Add(time.Minute), *p.run.WakeAt)
	require.Empty(t, p.run.Watch)

	p.run.Now = noon.Add(time.Minute)
	p.step(nil)
	require.Equal(t, []*dagrun.Unit{a}, p.run.Watch)
	require.Equal(t, dagrun.Running, a.Status)

	a.Rejected = &dagrun.NodeFailure{Code: dagrun.CodeHeartbeat}
	p.step(nil)
	require.Equal(t, dagrun.Waiting, a.Status, "for its second attempt")
	require.True(t, a.Stop)
	require.Empty(t, p.run.Watch)

	a.Stop = false
	p.run.Now = *a.DueAt
	p.step(nil)
	require.Equal(t, []any{dagrun.Running, 2}, []any{a.Status, a.Attempt})
	require.Equal(t, p.run.Now.Add(time.Minute), *a.DueAt)
}
