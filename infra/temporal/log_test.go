package temporal

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuiet_lowersWhatIsOrdinary(t *testing.T) {
	t.Parallel()

	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var out bytes.Buffer

		logger := slog.New(quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})}).With("Namespace", "everloop")
		logger.Warn("Activity error.", "Error", errors.New("later"))
		logger.Info("Task processing failed with error", "Error", errors.New("UnhandledCommand"))
		require.NotContains(t, out.String(), "level=WARN")
		require.NotContains(t, out.String(), "level=INFO")
		require.Equal(t, level == slog.LevelDebug, out.Len() > 0)

		logger.Info("Task processing failed with error", "Error", errors.New("nondeterministic workflow"))
		require.Contains(t, out.String(), "level=INFO")
	}
}
