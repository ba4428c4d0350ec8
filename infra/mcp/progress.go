package mcp

import (
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Progress is shown at most so often, and so many times a call. What is left out
// is old news by then.
const (
	progressEvery = 50 * time.Millisecond
	progressMost  = 500
)

// sink takes the progress of one call.
type sink struct {
	show func(stream, text string)

	mu     sync.Mutex
	closed bool
	shown  int
	last   time.Time
}

// listen has the progress of a call shown until stop is called; after that
// nothing more is.
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

// progress takes a notification; one for a call that is over is dropped.
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
