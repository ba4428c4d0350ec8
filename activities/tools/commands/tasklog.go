package commands

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"everloop/activities/tools"
)

// The log of a background task is text of one line for each line that the task
// wrote, marked with the stream that it came from. Read shows it to the model,
// ReadTaskLog to clients.
const (
	outMark = "out| "
	errMark = "err| "
)

// A line that has no end yet is kept back for so long, and a longer one is
// broken; bytes.
const (
	maxTaskLine  = 8 << 10
	partialAfter = time.Second
	taskFlush    = 200 * time.Millisecond
)

// TaskLog writes the log of a background task. Its streams may be written to at
// once.
type TaskLog struct {
	limit int64
	full  func() // called once, when the limit is passed

	mu      sync.Mutex
	to      io.WriteCloser
	pending bytes.Buffer
	streams [2]taskStream
	written int64 // bytes of the log, what is pending included
	last    time.Time
	err     error
	stop    chan struct{}
	stopped sync.WaitGroup
}

type taskStream struct {
	log   *TaskLog
	mark  string
	line  []byte
	since time.Time // when the line that has no end started
}

// NewTaskLog starts to write a log to an open file, which it closes. full is
// called when the log has reached limit bytes; nothing is kept from then on.
func NewTaskLog(to io.WriteCloser, limit int64, full func()) *TaskLog {
	l := &TaskLog{to: to, limit: limit, full: full, stop: make(chan struct{})}
	l.streams = [2]taskStream{{log: l, mark: outMark}, {log: l, mark: errMark}}
	l.stopped.Go(l.flushNowAndThen)

	return l
}

// Stdout returns where the task's standard output goes.
func (l *TaskLog) Stdout() io.Writer { return &l.streams[0] }

// Stderr returns where the task's standard error goes.
func (l *TaskLog) Stderr() io.Writer { return &l.streams[1] }

// Written gives the bytes of the log so far, and when the task last wrote; the
// zero time when it never did.
func (l *TaskLog) Written() (int64, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.written, l.last
}

// Close writes what is left. An error reports that part of the log is missing.
func (l *TaskLog) Close() error {
	close(l.stop)
	l.stopped.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()

	for i := range l.streams {
		l.streams[i].end()
	}

	l.flush()

	return errors.Join(l.err, l.to.Close())
}

// Write never fails: a task must not notice what becomes of its output.
func (s *taskStream) Write(p []byte) (int, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()

	l.last = time.Now()

	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after

		if len(s.line) == 0 {
			s.since = l.last
		}

		for len(s.line)+len(line) > maxTaskLine {
			room := maxTaskLine - len(s.line)
			s.line = append(s.line, line[:room]...)
			line = line[room:]
			whole := wholeRunes(s.line)
			kept := bytes.Clone(s.line[whole:])
			s.line = s.line[:whole]
			s.end()
			s.line = append(s.line, kept...)
		}

		s.line = append(s.line, line...)
		if ended {
			s.line = append(bytes.TrimSuffix(s.line, []byte("\r")), '\n')
			s.end()
		}
	}

	if l.pending.Len() > 64<<10 {
		l.flush()
	}

	return len(p), nil
}

// end takes the line that was gathered into the log. A line that is empty but
// for its end was written all the same.
func (s *taskStream) end() {
	if len(s.line) == 0 {
		return
	}

	text := tools.Clean(string(bytes.TrimSuffix(s.line, []byte("\n"))))
	s.line = s.line[:0]
	l := s.log
	n := int64(len(s.mark) + len(text) + 1)

	if l.written >= l.limit {
		return
	}

	if l.written+n > l.limit {
		l.written = l.limit // the rest is not kept
		l.full()

		return
	}

	l.written += n
	l.pending.WriteString(s.mark)
	l.pending.WriteString(text)
	l.pending.WriteByte('\n')
}

func (l *TaskLog) flushNowAndThen() {
	tick := time.NewTicker(taskFlush)
	defer tick.Stop()

	for {
		select {
		case <-l.stop:
			return
		case now := <-tick.C:
			l.mu.Lock()
			for i := range l.streams {
				if s := &l.streams[i]; len(s.line) > 0 && now.Sub(s.since) > partialAfter && wholeRunes(s.line) == len(s.line) {
					s.end() // a prompt, or a row of dots: better seen than whole
				}
			}

			l.flush()
			l.mu.Unlock()
		}
	}
}

func (l *TaskLog) flush() {
	if l.pending.Len() == 0 {
		return
	}

	if _, err := l.to.Write(l.pending.Bytes()); err != nil && l.err == nil {
		l.err = err
	}

	l.pending.Reset()
}
