package app

import (
	"errors"
	"fmt"
	"net/url"

	"everloop/infra/secrets"
	"everloop/internal/app/flags"
)

// bounds finds what would only show itself once the engines run, or never: values
// out of range, a key that is too short, addresses that are none.
func (s *settings) bounds() error {
	var faults []error

	for _, n := range []struct {
		variable    string
		value, from int64
	}{
		{"RATE_LIMIT_PER_MINUTE", int64(s.RateLimit), 0},
		{"LLM_CONTEXT_WINDOW", s.ContextWindow, 1},
		{"SANDBOX_MEMORY_BYTES", s.SandboxMemory, 1},
		{"SANDBOX_PROCESSES", int64(s.SandboxProcs), 1},
		{"WORKSPACE_BYTES", s.WorkspaceBytes, 0},
		{"WORKSPACE_INODES", s.WorkspaceInodes, 0},
		{"EVENT_LOG_BYTES", s.EventLogBytes, 0},
		{"STOP_TIMEOUT", int64(s.StopTimeout), 0},
	} {
		switch {
		case n.value >= n.from:
		case n.from == 0:
			faults = append(faults, fmt.Errorf("%s must not be negative", n.variable))
		default:
			faults = append(faults, fmt.Errorf("%s must be at least %d", n.variable, n.from))
		}
	}

	if s.EncryptionKey != "" {
		if _, err := secrets.NewBox(s.EncryptionKey); err != nil {
			faults = append(faults, fmt.Errorf("ENCRYPTION_KEY: %w", err))
		}
	}

	for _, origin := range s.AllowedOrigins {
		at, err := url.Parse(origin)
		if origin != "" && (err != nil || !flags.IsWeb(origin) || origin != at.Scheme+"://"+at.Host) {
			faults = append(
				faults,
				fmt.Errorf("ALLOWED_ORIGINS: %q is not an origin, as https://app.example or http://127.0.0.1:3000", origin),
			)
		}
	}

	_, err := s.mcpGuard(nil)
	_, hooks := s.webhookGuard(nil)

	return errors.Join(append(faults, err, hooks)...)
}
