package mcp

import (
	"fmt"
	"sync"
	"time"
)

// Limits of the messages of one server. A message is in memory as a whole; the limits per minute
// are far above normal use.
const (
	maxMessage        = 16 << 20
	maxMinute         = 128 << 20
	maxMinuteMessages = 20_000
)

// budget counts the messages of a server in windows of a minute. The zero value is ready for use.
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
