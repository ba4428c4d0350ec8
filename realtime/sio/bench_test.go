package sio_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

// BenchmarkEmit sends one event to each of 100 clients in turn, as a room
// does, and waits for all to arrive.
func BenchmarkEmit(b *testing.B) {
	handler := newRecorder()
	addr, _, stop, err := serve(sio.Options{Handler: handler}, fiber.Config{})
	require.NoError(b, err)

	defer stop()

	const clients = 100

	rounds := b.N/clients + 1

	var arrived sync.WaitGroup

	for range clients {
		c, err := join(addr, "websocket")
		require.NoError(b, err)

		defer c.close()

		arrived.Go(func() {
			for range rounds {
				if _, err := await(c, "42", time.Minute); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}

	require.Eventually(b, func() bool {
		handler.mu.Lock()
		defer handler.mu.Unlock()

		return len(handler.conns) == clients
	}, patience, time.Millisecond)

	conns := make([]*sio.Conn, 0, clients)
	for _, c := range handler.conns {
		conns = append(conns, c)
	}

	data := []byte(
		fmt.Sprintf(
			`{"turn_id":"t","patch_type":"add_content","text_delta":%q}`,
			"about a hundred and fifty bytes of text in all, which is what a delta has",
		),
	)

	b.ResetTimer()
	b.ReportAllocs()

	for range rounds {
		for _, c := range conns {
			for !c.Emit("turn:patch", data) {
				time.Sleep(time.Millisecond) //nolint:forbidigo // faster than the clients read: a bound, not a synchronisation
			}
		}
	}

	arrived.Wait()
}
