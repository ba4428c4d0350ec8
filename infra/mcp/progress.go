package mcp

import (
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of the progress of a call: interval and count. Excess notifications are dropped.
const (
	progressEvery = 50 * time.Millisecond
	progressMost  = 500
)

// sink receives the progress of one call.
type sink struct {
	show func(stream, text string)

	mu     sync.Mutex
	closed bool
	shown  int
	last   time.Time
}

// listen passes the progress of a call to show until stop is called.
func (c *connection) listen(token string, show func(stream, text string)) (stop func()) {
	if show == nil {
		return func() {}
	}

	s := &sink{show: show}

	c.mu.Lock()
	c.sinks[token] = s
	c.mu.Unlock()

	return func() {
		c.mu.Lock()
		delete(c.sinks, token)
		c.mu.Unlock()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// progress handles a notification; one for a finished call is dropped.
func (c *connection) progress(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)

	c.mu.Lock()
	s := c.sinks[token]
	c.mu.Unlock()

	if s == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	final := p.Total > 0 && p.Progress >= p.Total
	if s.closed || s.shown >= progressMost || !final && time.Since(s.last) < progressEvery {
		return
	}

	s.shown++
	s.last = time.Now()

	text := fmt.Sprintf("%g", p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf("/%g", p.Total)
	}

	if message := cleanText(oneLine(p.Message), maxWords); message != "" {
		text += " " + message
	}

	s.show("progress", text+"\n")
}
