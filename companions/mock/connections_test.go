package mock_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/internal/clients"
)

func TestService_Serve_boundsEachClient(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))

	ended := make(chan error, 1)
	go func() { ended <- mock.New(mock.Config{Connections: 1}).Serve(ctx, listener) }()

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

	dial()

	answer, err := io.ReadAll(dial())
	require.NoError(t, err)
	require.Equal(t, string(clients.Refusal()), string(answer))
}
