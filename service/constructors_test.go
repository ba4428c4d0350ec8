package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/service/apps"
	"everloop/service/chat"
	"everloop/service/compute"
	"everloop/service/history"
	"everloop/service/recordings"
	"everloop/service/recordings/replay"
	"everloop/service/recordings/transfer"
)

func TestConstructors_emptyConfig_isRejected(t *testing.T) {
	t.Parallel()

	for name, construct := range map[string]func() error{
		"apps":             func() error { _, err := apps.New(apps.Config{}); return err },
		"chat":             func() error { _, err := chat.New(chat.Config{}); return err },
		"chat.Compactions": func() error { _, err := chat.NewCompactions(chat.CompactionsConfig{}); return err },
		"compute":          func() error { _, err := compute.New(compute.Config{}); return err },
		"history":          func() error { _, err := history.New(history.Config{}); return err },
		"recordings":       func() error { _, err := recordings.New(recordings.Deps{}); return err },
		"replay":           func() error { _, err := replay.New(recordings.Deps{}, nil); return err },
		"transfer":         func() error { _, err := transfer.New(transfer.Config{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, construct(), "the configuration needs ")
		})
	}
}
