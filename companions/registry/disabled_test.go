package registry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/credentials"
	"everloop/companions/registry"
)

// closingAgent is an agent that knows one key, until its owner is disabled: then it answers 401.
func closingAgent(t *testing.T) (url string, disable func()) {
	t.Helper()

	var disabled atomic.Bool

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if disabled.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = io.WriteString(w, callers["Bearer ann"])
	}))
	t.Cleanup(agent.Close)

	return agent.URL, func() { disabled.Store(true) }
}

// The key of a disabled person works no longer than the service remembers an answer.
func TestService_refusesKeyOfDisabledPerson(t *testing.T) {
	t.Parallel()

	agent, disable := closingAgent(t)
	w := newWorld(t, func(cfg *registry.Config) { cfg.Credentials = credentials.New(agent, machineKey) })
	change := func() int { return w.put("/registry/organizations/ann", "ann", `{"description":"d"}`).status }
	before := change()
	require.NotEqual(t, http.StatusUnauthorized, before)

	disable()
	require.Eventually(t, func() bool { return change() == http.StatusUnauthorized }, time.Minute, 500*time.Millisecond)
}
