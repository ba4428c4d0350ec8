package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/log/tag"
)

func TestTemporalLogger_onlyWhileTheServerRuns(t *testing.T) {
	var text bytes.Buffer

	l := newTemporalLogger(slog.New(slog.NewTextHandler(&text, nil)))
	l.Error("while starting")
	l.ready.Store(true)
	l.Info("chatter")
	l.Error("while running", tag.String("shard", "1"))
	l.silence()
	l.silence() // a second stop must not panic
	l.Error("while stopping")
	require.Contains(t, text.String(), `msg="while running" engine=temporal shard=1`)

	for _, unwanted := range []string{"while starting", "chatter", "while stopping"} {
		require.NotContains(t, text.String(), unwanted)
	}
}

func TestTemporalLogger_firstFatalError(t *testing.T) {
	var text bytes.Buffer

	l := newTemporalLogger(slog.New(slog.NewTextHandler(&text, nil)))
	l.Fatal("cannot serve", tag.Error(errors.New("port gone")))
	l.Fatal("and again")
	<-l.fatal
	require.EqualError(t, l.fatalError(), "cannot serve: port gone")
	require.Contains(t, text.String(), "cannot serve") // also while starting
}
