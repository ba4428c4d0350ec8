package hook

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer runs the hook on updates, against a service that reads the request and sends
// replies.
func answer(t *testing.T, updates, replies string) (request, shown string, accepted bool, err error) {
	t.Helper()

	ours, theirs := net.Pipe()

	received := make(chan string)
	go func() {
		buffer := make([]byte, MaxRequest)
		n, _ := theirs.Read(buffer)
		_, _ = io.WriteString(theirs, replies)
		theirs.Close()

		received <- string(buffer[:n])
	}()

	var client bytes.Buffer

	accepted, err = run(strings.NewReader(updates), ours, &client)
	ours.Close()

	return <-received, client.String(), accepted, err
}

func TestRun_passesOnUpdatesAndDecision(t *testing.T) {
	t.Parallel()
	request, shown, accepted, err := answer(t, "old new refs/heads/main\n", `{"say":"one"}{"say":"two"}{"done":true,"accept":true}`)
	require.NoError(t, err)
	require.True(t, accepted)
	require.JSONEq(t, `{"quarantine":"","updates":[{"old":"old","new":"new","ref":"refs/heads/main"}],"too_many":false}`, request)
	require.Equal(t, "one\ntwo\n", shown)
	_, _, accepted, err = answer(t, "old new refs/heads/main\n", `{"done":true}`)
	require.NoError(t, err)
	require.False(t, accepted)
}

func TestRun_refusesWithoutDecision(t *testing.T) {
	t.Parallel()
	_, _, accepted, err := answer(t, "old new refs/heads/main\n", `{"say":"one"}`)
	require.Error(t, err)
	require.False(t, accepted)
}

func TestRun_boundsUpdates(t *testing.T) {
	t.Parallel()

	var many strings.Builder
	for i := range MaxUpdates + 1 {
		fmt.Fprintf(&many, "old new refs/heads/%d\n", i)
	}

	request, _, _, err := answer(t, many.String(), `{"done":true}`)
	require.NoError(t, err)
	require.Contains(t, request, `"too_many":true`)
	require.NotContains(t, request, fmt.Sprintf("refs/heads/%d\"", MaxUpdates))
}
