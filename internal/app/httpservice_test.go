package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/clients"
)

func TestHTTPService_boundsEachClient(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))

	ended := make(chan error, 1)
	go func() { ended <- httpService("test", listener, http.NotFoundHandler()).Run(ctx) }()

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		return conn
	}

	for range healthConnections {
		dial()
	}

	answer, err := io.ReadAll(dial())
	require.NoError(t, err)
	require.Equal(t, string(clients.Refusal()), string(answer))
}
