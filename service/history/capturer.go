package history

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
	"everloop/domain/history"
)

// CapturerConfig is what NewCapturer needs.
type CapturerConfig struct {
	Store   Captures
	Files   Files
	Process string // names this process among others
	Logger  *slog.Logger
	Budget  Budget
}

// Capturer captures the files of checkpoints beside the chats. Of one session
// one look at the files is taken at a time; storing what was seen goes on while
// tools run again. What it does not come to, because its process dies, is done
// by the caller that needs it next, or by Repair.
type Capturer struct {
	cfg CapturerConfig

	mu       sync.Mutex
	sessions map[domain.SessionID]*capturing
	active   int           // looks and uploads under way or waiting for their turn
	idle     chan struct{} // for who waits until none is; closed then

	repairing sync.Mutex
	repaired  string // the session up to which Repair has come
}

// NewCapturer checks the configuration.
func NewCapturer(cfg CapturerConfig) (*Capturer, error) {
	if cfg.Store == nil || cfg.Files == nil || cfg.Process == "" || cfg.Logger == nil {
		return nil, errors.New("history: the configuration needs Records, Files, Process and Logger")
	}

	return &Capturer{cfg: cfg}, nil
}

// work counts one more look or upload, until done is called.
func (c *Capturer) work() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.active++

	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()

		if c.active--; c.active == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
	}
}

// lookTimeout bounds one look at a workspace and what storing it takes.
const lookTimeout = 10 * time.Minute

// Changed says that files of the session may have changed and are to be captured.
// It returns at once.
func (c *Capturer) Changed(sessionID domain.SessionID) {
	s := c.enter(sessionID)
	c.mu.Lock()
	again := s.queued
	s.queued = true
	c.mu.Unlock()

	if again { // one that has not begun will see it
		c.leave(sessionID, s)
		return
	}

	done := c.work()
	go func() {
		defer done()
		defer c.leave(sessionID, s)

		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()

		err := c.locked(ctx, s, func() error {
			c.mu.Lock()
			s.queued = false
			c.mu.Unlock()
			_, err := c.capture(ctx, sessionID, s, false)

			return err
		})
		if err != nil {
			c.cfg.Logger.Warn("failed to capture files", "session_id", sessionID, "error", err)
		}
	}()
}

// heldPoll is how often work that another process has in hand is looked at.
const heldPoll = 100 * time.Millisecond

// Settle returns when the files of everything that is due have been seen, so that
// tools may change them. What cannot be captured is given up: a tool does not
// wait without end.
func (c *Capturer) Settle(ctx context.Context, sessionID domain.SessionID) error {
	s := c.enter(sessionID)
	defer c.leave(sessionID, s)

	for {
		var held int

		err := c.locked(ctx, s, func() (err error) {
			held, err = c.capture(ctx, sessionID, s, false)
			return err
		})
		if err != nil || held == 0 {
			return err
		}

		if err := pause(ctx, heldPoll); err != nil {
			return err
		}
	}
}

// Settled captures what is due and waits until it is stored.
func (c *Capturer) Settled(ctx context.Context, sessionID domain.SessionID) error {
	if err := c.Settle(ctx, sessionID); err != nil {
		return err
	}

	s := c.enter(sessionID)
	defer c.leave(sessionID, s)

	return s.stored(ctx)
}

// Flush returns when the files of every checkpoint of an idle session are stored,
// and recorded.
func (c *Capturer) Flush(ctx context.Context, sessionID domain.SessionID) error {
	s := c.enter(sessionID)
	defer c.leave(sessionID, s)

	for {
		var held int

		err := c.locked(ctx, s, func() (err error) {
			held, err = c.capture(ctx, sessionID, s, true)
			return err
		})
		if err == nil {
			err = s.stored(ctx)
		}

		if err != nil || held == 0 {
			return err
		}

		if err := pause(ctx, heldPoll); err != nil {
			return err
		}
	}
}

// capture looks at the files once for all checkpoints that are due, and leaves
// the storing to itself. It says how many due ones another process has in hand.
func (c *Capturer) capture(ctx context.Context, sessionID domain.SessionID, s *capturing, all bool) (held int, err error) {
	due, err := c.cfg.Store.TakeCaptures(ctx, sessionID, c.cfg.Process, s.hand(), all)
	if err != nil || len(due.IDs) == 0 {
		return due.Held, err
	}

	stop := c.keep(ctx, due.IDs)
	in := CaptureIn{SessionID: sessionID, SandboxUID: due.SandboxUID, Previous: due.Previous, Busy: due.Busy}

	pending, err := c.cfg.Files.Begin(ctx, in)
	if err != nil && in.Previous != "" && ctx.Err() == nil {
		in.Previous = "" // the store cannot give it now: what was there is still seen
		pending, err = c.cfg.Files.Begin(ctx, in)
	}

	if err != nil {
		stop()
		c.release(ctx, sessionID, due.IDs, err)

		return due.Held, err
	}

	before, over := s.begin(due.IDs)

	c.enter(sessionID)

	done := c.work()
	go func() {
		defer done()
		defer c.leave(sessionID, s)
		defer stop()
		defer over()

		c.store(context.WithoutCancel(ctx), due, pending, before)
	}()

	return due.Held, nil
}

// release leaves checkpoints for another try when the caller went away, and
// gives them up when their files cannot be read.
func (c *Capturer) release(ctx context.Context, sessionID domain.SessionID, ids []string, cause error) {
	free := context.WithoutCancel(ctx)

	var err error
	if ctx.Err() != nil {
		err = c.cfg.Store.LeaveCaptures(free, c.cfg.Process, ids)
	} else {
		err = c.cfg.Store.FailCaptures(free, c.cfg.Process, ids, cause.Error())
	}

	if err != nil {
		c.cfg.Logger.Warn("failed to release checkpoint leases", "session_id", sessionID, "error", err)
	}
}

// renewEvery is how often a process says that it still captures.
const renewEvery = 1500 * time.Millisecond

// keep holds checkpoints for this process until stop.
func (c *Capturer) keep(ctx context.Context, ids []string) (stop func()) {
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		for pause(renewing, renewEvery) == nil {
			if err := c.cfg.Store.KeepCaptures(renewing, c.cfg.Process, ids); err != nil && renewing.Err() == nil {
				c.cfg.Logger.Warn("failed to renew checkpoint leases", "error", err)
			}
		}
	}()

	return cancel
}

// storeTries is how often the object store is tried before files are given up.
const storeTries = 4

// store keeps what was seen and records it, after the capture before: what changed
// since that one is emitted.
func (c *Capturer) store(ctx context.Context, due history.DueCaptures, pending Pending, before <-chan struct{}) {
	defer pending.Discard()

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	var snapshot history.Snapshot

	err := c.affords(ctx, due.SessionID, pending.Needs())
	if err == nil {
		err = retried(ctx, func() (err error) {
			snapshot, err = pending.Finish(ctx)
			return err
		})
	}

	if err == nil {
		select {
		case <-before:
		case <-ctx.Done():
		}

		snapshot.Complete = snapshot.Complete && !due.Late
		err = c.record(ctx, due, snapshot)
	}

	if err != nil {
		c.cfg.Logger.Error("checkpoint snapshot failed permanently", "session_id", due.SessionID, "error", err)

		if err := c.cfg.Store.FailCaptures(ctx, c.cfg.Process, due.IDs, err.Error()); err != nil {
			c.cfg.Logger.Warn("failed to record that checkpoints failed", "session_id", due.SessionID, "error", err)
		}
	}
}

// record writes what the checkpoints hold, and emits what changed since the capture
// before.
func (c *Capturer) record(ctx context.Context, due history.DueCaptures, snapshot history.Snapshot) error {
	var base history.CaptureBase

	err := retried(ctx, func() (err error) {
		base, err = c.cfg.Store.RecordCaptures(ctx, c.cfg.Process, due, snapshot)
		return err
	})
	if err == nil {
		c.emitCaptured(ctx, due.SessionID, base, snapshot.ID)
	}

	return err
}

// retried tries again for some seconds.
func retried(ctx context.Context, do func() error) (err error) {
	for try := 1; ; try++ {
		if err = do(); err == nil || try == storeTries || ctx.Err() != nil {
			return err
		}

		if pause(ctx, time.Duration(try*try)*500*time.Millisecond) != nil {
			return err
		}
	}
}

// forgottenAfter is how long a checkpoint may be due before Repair captures it.
const forgottenAfter = 10 * time.Second

// Repair captures what processes that died have left: of one page of sessions a
// call, in turn, so that sessions which take long keep no others from it.
func (c *Capturer) Repair(ctx context.Context) error {
	c.repairing.Lock()
	defer c.repairing.Unlock()

	sessions, err := c.cfg.Store.ForgottenCaptures(ctx, forgottenAfter, c.repaired)
	if err != nil {
		return err
	}

	for _, id := range sessions {
		c.Changed(id)
	}

	if c.repaired = ""; len(sessions) > 0 {
		c.repaired = string(sessions[len(sessions)-1])
	}

	return nil
}

// Drain waits until nothing is looked at or stored any more, or ctx ends.
func (c *Capturer) Drain(ctx context.Context) {
	c.mu.Lock()
	if c.active == 0 {
		c.mu.Unlock()
		return
	}

	if c.idle == nil {
		c.idle = make(chan struct{})
	}

	idle := c.idle
	c.mu.Unlock()

	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
