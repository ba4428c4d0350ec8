package engine

import (
	"context"
	"log/slog"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"everloop/infra/embedded"
	"everloop/internal/testkit"
)

// The stream of the event log is as large as EVENT_LOG_BYTES says.
func TestNATSSettings_open_eventLogBytes(t *testing.T) {
	db := testkit.Database(t)
	logger := slog.New(slog.DiscardHandler)

	for _, tc := range []struct {
		name, variable string
		want           int64
	}{{"a size", "1048576", 1 << 20}, {"no limit", "0", -1}, {"the default", "", 8 << 30}} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.variable != "" {
				t.Setenv("EVENT_LOG_BYTES", tc.variable)
			}

			var s NATSSettings

			parser, err := kong.New(&s)
			require.NoError(t, err)
			_, err = parser.Parse(nil)
			require.NoError(t, err)

			s.natsInside, err = embedded.StartEvents(t.TempDir(), embedded.EventsConfig{}, logger)
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.natsInside.Stop(context.Background()) })

			c := &Clients{postgresClients: postgresClients{DB: db}}
			t.Cleanup(c.Close)
			require.NoError(t, s.open(t.Context(), c, Process{Logger: logger}))

			js, err := jetstream.New(c.NATS)
			require.NoError(t, err)
			stream, err := js.Stream(t.Context(), "EVENTS")
			require.NoError(t, err)
			require.Equal(t, tc.want, stream.CachedInfo().Config.MaxBytes)
		})
	}
}
