package mcp

import (
	"fmt"
	"sync"
	"time"
)

// What one server may send. A message is held in memory as a whole; more in a
// minute than any work needs would only keep this process busy.
const (
	maxMessage        = 16 << 20
	maxMinute         = 128 << 20
	maxMinuteMessages = 20_000
)

// budget counts what a server sends. Its zero value is ready for use.
type budget struct {
	mu       sync.Mutex
	since    time.Time
	bytes    int64
	messages int
}

func (b *budget) spend(bytes, messages int) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	if now := time.Now(); now.Sub(b.since) > time.Minute {
		b.since, b.bytes, b.messages = now, 0, 0
	}

	b.bytes += int64(bytes)

	b.messages += messages
	if b.bytes > maxMinute || b.messages > maxMinuteMessages {
		return fmt.Errorf("it sent more than %d MiB or %d messages within a minute", maxMinute>>20, maxMinuteMessages)
	}

	return nil
}
