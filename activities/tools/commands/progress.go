package commands

import (
	"sync"
	"time"

	"everloop/activities/tools"
)

// Live output is sent in pieces: one every progressEvery, or sooner when
// progressSize bytes have gathered, and no more than progressMost characters in
// all (the result holds the rest).
const (
	progressEvery = 100 * time.Millisecond
	progressSize  = 4 << 10
	progressMost  = tools.MaxResult
)

const progressEnd = "\n[… live output ends here; the command goes on …]\n"

// progress gathers live output of one stream and passes it on in pieces.
type progress struct {
	send   func(stream, text string)
	stream string

	mu     sync.Mutex
	held   []byte
	sent   int // characters
	timer  *time.Timer
	closed bool
}

func newProgress(stream string, send func(stream, text string)) *progress {
	return &progress{stream: stream, send: send}
}

// add takes text that is whole characters.
func (p *progress) add(text []byte) {
	if p.send == nil {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed || p.sent >= progressMost {
		return
	}

	p.held = append(p.held, text...)
	switch {
	case len(p.held) >= progressSize:
		p.flush()
	case p.timer == nil:
		p.timer = time.AfterFunc(progressEvery, func() {
			p.mu.Lock()
			defer p.mu.Unlock()

			p.timer = nil
			p.flush()
		})
	}
}

// close sends what is left. Nothing is sent after it.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.flush()

	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// flush runs with the lock held, so that pieces stay in order.
func (p *progress) flush() {
	if p.closed || len(p.held) == 0 {
		return
	}

	text := string(p.held)
	p.held = p.held[:0]

	n := tools.Length(text)
	if p.sent+n >= progressMost {
		text = tools.First(text, progressMost-p.sent) + progressEnd
		n = progressMost - p.sent
	}

	p.sent += n
	p.send(p.stream, text)
}
