package webhooks

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/netguard"
	"everloop/infra/secrets"
)

// service returns the service, and the address of an endpoint that it may call. The endpoint
// reports the requests for /hang and does not answer them.
func (s sending) service() (service *Service, url string, hanging <-chan struct{}) {
	s.t.Helper()

	hangs := make(chan struct{}, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices a client that disconnects
			hangs <- struct{}{}

			<-r.Context().Done()
		}
	}))
	s.t.Cleanup(endpoint.Close)

	guard, err := netguard.New([]string{strings.TrimPrefix(endpoint.URL, "http://")}, nil)
	require.NoError(s.t, err)
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	require.NoError(s.t, err)

	service = New(Deps{DB: s.db.DB, Box: box, Guard: guard, Logger: slog.New(slog.DiscardHandler)})
	service.sender.time = time.Hour

	return service, endpoint.URL, hangs
}

func TestService_Run_hangingEndpointsDelayNoOther(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	service, url, hanging := s.service()
	create := func(path string) webhook.Webhook {
		made, _, err := service.Create(
			t.Context(),
			s.owner,
			webhook.Spec{URL: url + path, Events: []webhook.Event{webhook.All}, Enabled: true},
		)
		require.NoError(t, err)

		return made
	}
	slow, quick := create("/hang"), create("/quick")

	for range 10 {
		s.ended(domain.FinishCompleted)
	}

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})

	go func() {
		defer close(stopped)

		service.Run(ctx)
	}()

	for range maxPerWebhook {
		<-hanging
	}

	require.Eventually(t, func() bool {
		for _, delivery := range s.deliveries(quick) {
			if delivery.Status != webhook.DeliveryDelivered {
				return false
			}
		}

		return true
	}, time.Minute, 20*time.Millisecond)

	cancel()
	<-stopped

	for _, delivery := range s.deliveries(slow) {
		require.Equal(t, webhook.DeliveryPending, delivery.Status)
		require.Empty(t, delivery.Attempts, "the endpoint did not fail")
	}

	require.Len(t, s.claim(64), maxPerWebhook, "attempts that were cut off are due immediately")
}
