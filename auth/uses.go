package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
)

// useEvery is the resolution of last_used_at: a key in steady use is written once in this
// interval, with its address.
const useEvery = time.Minute

// uses writes the last use of keys and its address in the background.
type uses struct {
	keys   Keys
	logger *slog.Logger

	mu      sync.Mutex
	written map[string]time.Time // per key, the last written use
	pending map[string]domain.KeyUse
	writing bool
	done    sync.WaitGroup
}

func newUses(keys Keys, logger *slog.Logger) *uses {
	return &uses{keys: keys, logger: logger, written: map[string]time.Time{}, pending: map[string]domain.KeyUse{}}
}

func (u *uses) note(keyID string, use domain.KeyUse) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if last, ok := u.written[keyID]; ok && use.At.Sub(last) < useEvery {
		return
	}

	if len(u.written) >= cacheLimit {
		clear(u.written)
	}

	u.written[keyID], u.pending[keyID] = use.At, use
	if !u.writing {
		u.writing = true

		u.done.Add(1)
		go u.write()
	}
}

// write stores the pending uses in batches.
func (u *uses) write() {
	defer u.done.Done()

	for {
		u.mu.Lock()
		batch := u.pending
		u.pending = map[string]domain.KeyUse{}
		u.writing = len(batch) > 0
		u.mu.Unlock()

		if len(batch) == 0 {
			return
		}

		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := u.keys.TouchKeys(ctx, batch); err != nil {
			u.logger.Warn("failed to update the last use of API keys", "keys", len(batch), "error", err)
		}

		cancel()
	}
}

func (u *uses) wait() { u.done.Wait() }
