package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/identity/upstream"
)

// Those who want to sign in while a provider is away do not each ask it.
func TestFlow_Begin_manyWhileAway(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-begun // all of them wait
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(server.Close)

	flow := upstream.NewFlow(upstream.Provider{Issuer: server.URL}, "http://id.example/signin/callback/x")

	var (
		all     sync.WaitGroup
		started sync.WaitGroup
	)

	for range 20 {
		started.Add(1)
		all.Go(func() {
			started.Done()

			_, _, err := flow.Begin()
			if err == nil {
				t.Error("it began")
			}
		})
	}

	started.Wait()
	close(begun)
	all.Wait()
	require.Less(t, asked.Load(), int64(20))

	_, _, err := flow.Begin()
	require.ErrorIs(t, err, upstream.ErrUnavailable)
}
