package edge

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/clients"
)

// serve starts a service that holds its requests until release is closed.
func serve(t *testing.T, s Service) (addr string, held chan string, release chan struct{}) {
	t.Helper()

	held, release = make(chan string), make(chan struct{})
	s.Log = slog.New(slog.DiscardHandler)
	s.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		held <- Client(r).String()

		<-release
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))

	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	return listener.Addr().String(), held, release
}

// One client cannot take all connections: those beyond its own are refused at once.
func TestService_Serve_boundsEachClient(t *testing.T) {
	t.Parallel()

	addr, _, release := serve(t, Service{PerAddress: 2})
	close(release)

	dial := func() net.Conn {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		return conn
	}

	dial()
	dial()

	answer, err := io.ReadAll(dial())
	require.NoError(t, err)
	require.Equal(t, string(clients.Refusal()), string(answer))
}

// Behind a trusted proxy each client has its own share, by its requests under way.
func TestService_Serve_boundsClientsOfAProxy(t *testing.T) {
	t.Parallel()

	proxies, err := clients.ParseProxies([]string{"127.0.0.1"})
	require.NoError(t, err)
	addr, held, release := serve(t, Service{PerAddress: 1, Proxies: proxies})

	ask := func(client string, to chan<- int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			to <- 0
			return
		}

		r.Header.Set("X-Forwarded-For", client)

		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			to <- 0
			return
		}

		to <- answer.StatusCode

		answer.Body.Close()
	}
	first, second := make(chan int, 1), make(chan int, 1)

	go ask("198.51.100.1", first)

	require.Equal(t, "198.51.100.1", <-held)
	ask("198.51.100.1", second)
	require.Equal(t, http.StatusTooManyRequests, <-second)

	go ask("198.51.100.2", second)

	require.Equal(t, "198.51.100.2", <-held)
	close(release)
	require.Equal(t, http.StatusOK, <-first)
	require.Equal(t, http.StatusOK, <-second)
}

// deadlines is a writer that notes the deadline of reading.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at

	return nil
}

// A request that is rejected for its host has a deadline too: net/http drains its body.
func TestService_Guarded_rejectsWithADeadline(t *testing.T) {
	t.Parallel()

	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "http://elsewhere.example/", io.MultiReader())
	Service{Log: slog.New(slog.DiscardHandler)}.Guarded().ServeHTTP(w, r)

	require.Equal(t, http.StatusForbidden, w.Code)
	require.False(t, w.read.IsZero())
}
