package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"everloop/internal/retry"

	"everloop/domain"
	"everloop/domain/history"
)

// Capturer captures the files of checkpoints while chats run. It reads the files of one
// session in one goroutine at a time; tools run again while it stores what it read.
// Captures left by a crash are completed by the next caller that needs them, or by Repair.
type Capturer struct {
	cfg Config

	mu       sync.Mutex
	sessions map[domain.SessionID]*capturing
	active   int           // looks and uploads under way or waiting for their turn
	idle     chan struct{} // closed when active reaches 0; nil: none waits
	delayed  int           // captures that are kept while the object store refuses them
	refused  time.Time     // when one was left for a later look
	draining chan struct{} // closed by Drain

	repairing sync.Mutex
	repaired  string // the session up to which Repair has come
}

func newCapturer(cfg Config) *Capturer { return &Capturer{cfg: cfg, draining: make(chan struct{})} }

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

// Changed reports that files of the session may have changed and must be captured.
// It returns at once.
func (c *Capturer) Changed(sessionID domain.SessionID) {
	s := c.enter(sessionID)
	c.mu.Lock()
	again := s.queued
	s.queued = true
	c.mu.Unlock()

	if again { // one that has not started will see it
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

		if !retry.Wait(ctx, heldPoll) {
			return ctx.Err()
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

		if !retry.Wait(ctx, heldPoll) {
			return ctx.Err()
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

	before, own := s.begin(due.IDs)

	c.enter(sessionID)

	done := c.work()
	go func() {
		defer done()
		defer c.leave(sessionID, s)
		defer stop()
		defer s.over(due.IDs, own)

		c.store(context.WithoutCancel(ctx), due, pending, before, own)
	}()

	return due.Held, nil
}

// release leaves checkpoints for another try when the caller went away or something that
// they need is not available, and gives them up when their files cannot be read.
func (c *Capturer) release(ctx context.Context, sessionID domain.SessionID, ids []string, cause error) {
	free := context.WithoutCancel(ctx)

	var err error

	switch {
	case ctx.Err() != nil:
		err = c.cfg.Store.LeaveCaptures(free, c.cfg.Process, ids)
	case unavailable(cause):
		c.cfg.Logger.Warn("failed to read the files of checkpoints, leaving them for a later look", "session_id", sessionID, "error", cause)
		c.leftForLater()

		_, err = c.cfg.Store.DelayCaptures(free, c.cfg.Process, ids, cause.Error())
	default:
		err = c.cfg.Store.FailCaptures(free, c.cfg.Process, ids, cause.Error())
	}

	if err != nil {
		c.cfg.Logger.Warn("failed to release checkpoint leases", "session_id", sessionID, "error", err)
	}
}

// renewEvery is how often a process reports that it still captures.
const renewEvery = 1500 * time.Millisecond

// keep holds checkpoints for this process until stop.
func (c *Capturer) keep(ctx context.Context, ids []string) (stop func()) {
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		for retry.Wait(renewing, renewEvery) {
			if err := c.cfg.Store.KeepCaptures(renewing, c.cfg.Process, ids); err != nil && renewing.Err() == nil {
				c.cfg.Logger.Warn("failed to renew checkpoint leases", "error", err)
			}
		}
	}()

	return cancel
}

const (
	// storeTries is how often storing is tried before callers stop waiting for it, and
	// before files are given up when the fault is none of an outage.
	storeTries = 4
	// longestPause is that between two tries.
	longestPause = 15 * time.Second
	// maxDelayed is of how many captures a process keeps the files during an outage. They
	// take space on its disk; more are left for a later look.
	maxDelayed = 32
	// releaseTimeout bounds the record of what could not be stored.
	releaseTimeout = 10 * time.Second
)

// store keeps what was seen and records it, after the capture before: what changed
// since that one is emitted. While something is not available it tries again, up to
// lookTimeout, and leaves the checkpoints for a later look then.
func (c *Capturer) store(ctx context.Context, due history.DueCaptures, pending Pending, before, own *transfer) {
	defer pending.Discard()

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	t := try{c: c, ctx: ctx, due: due, own: own}
	defer t.end()

	var snapshot history.Snapshot

	err := c.affords(ctx, due.SessionID, pending.Needs(), t.do)
	if err == nil {
		err = t.do(func() (err error) {
			snapshot, err = pending.Finish(ctx)
			return err
		})
	}

	if err == nil {
		err = t.follow(before)
	}

	if err == nil {
		snapshot.Complete = snapshot.Complete && !due.Late
		err = c.record(ctx, due, snapshot, t.do)
	}

	if err == nil || errors.Is(err, domain.ErrFenced) {
		return
	}

	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()

	if ctx.Err() != nil || unavailable(err) {
		c.cfg.Logger.Warn("failed to store the files of checkpoints, leaving them for a later look",
			"session_id", due.SessionID, "error", err)
		c.leftForLater()

		_, err = c.cfg.Store.DelayCaptures(free, c.cfg.Process, due.IDs, err.Error())
	} else {
		c.cfg.Logger.Error("checkpoint snapshot failed permanently", "session_id", due.SessionID, "error", err)

		err = c.cfg.Store.FailCaptures(free, c.cfg.Process, due.IDs, err.Error())
	}

	if err != nil {
		c.cfg.Logger.Warn("failed to record that checkpoints failed", "session_id", due.SessionID, "error", err)
	}
}

// record writes what the checkpoints hold, and emits what changed since the capture
// before.
func (c *Capturer) record(ctx context.Context, due history.DueCaptures, snapshot history.Snapshot, retried func(func() error) error) error {
	var base history.CaptureBase

	err := retried(func() (err error) {
		base, err = c.cfg.Store.RecordCaptures(ctx, c.cfg.Process, due, snapshot)
		return err
	})
	if err == nil {
		c.emitCaptured(ctx, due.SessionID, base, snapshot.ID)
	}

	return err
}

func unavailable(err error) bool { return domain.AsError(err).Kind == domain.Unavailable }

// leftForLater has Repair wait: what was refused now would be refused again.
func (c *Capturer) leftForLater() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.refused = time.Now()
}

// try stores one capture.
type try struct {
	c       *Capturer
	ctx     context.Context
	due     history.DueCaptures
	own     *transfer
	delayed bool
}

// do tries for some seconds, and during an outage until the context ends.
func (t *try) do(step func() error) error {
	for n := 1; ; n++ {
		err := step()
		if err == nil || t.ctx.Err() != nil || n >= storeTries && (!unavailable(err) || !t.delay(err)) {
			return err
		}

		timer := time.NewTimer(min(time.Duration(n*n)*500*time.Millisecond, longestPause))
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			timer.Stop()
			return err
		case <-t.stopped():
			timer.Stop()
			return err
		}

		if t.delayed && !t.held(err) {
			return domain.ErrFenced
		}
	}
}

// held records why the capture is delayed, and reports whether it is still this process's:
// of a deleted session nothing is stored any more.
func (t *try) held(cause error) bool {
	held, err := t.c.cfg.Store.DelayCaptures(t.ctx, t.c.cfg.Process, t.due.IDs, cause.Error())
	if err != nil {
		t.c.cfg.Logger.Warn("failed to record that checkpoints are delayed", "session_id", t.due.SessionID, "error", err)
	}

	return held || err != nil
}

// stopped is closed when the process ends. Files that only an outage keeps waiting are left
// to another one then.
func (t *try) stopped() <-chan struct{} {
	if !t.delayed {
		return nil
	}

	return t.c.draining
}

// delay lets callers wait no longer for a capture that cannot be stored for the time being:
// its files were seen, so that tools may change them. With false the process keeps as many
// already.
func (t *try) delay(cause error) bool {
	if t.delayed {
		return true
	}

	t.c.mu.Lock()
	if t.c.delayed < maxDelayed {
		t.delayed = true
		t.c.delayed++
	}
	t.c.mu.Unlock()

	if !t.delayed {
		return false
	}

	t.c.cfg.Logger.Warn("failed to store the files of checkpoints, retrying", "session_id", t.due.SessionID, "error", cause)
	t.held(cause)
	close(t.own.delayed)

	return true
}

func (t *try) end() {
	if !t.delayed {
		return
	}

	t.c.mu.Lock()
	defer t.c.mu.Unlock()

	t.c.delayed--
}

// errBefore is why a capture is delayed that waits for the one before.
var errBefore = domain.Newf(domain.Unavailable, "snapshot_failed", "the files of the checkpoint before are not stored yet")

// follow waits for the end of the capture before, and is delayed with it.
func (t *try) follow(before *transfer) error {
	if before == nil {
		return nil
	}

	select {
	case <-before.done:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-before.delayed:
	}

	if !t.delay(errBefore) {
		return errBefore
	}

	select {
	case <-before.done:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// forgottenAfter is how long a checkpoint may be due before Repair captures it.
const forgottenAfter = 10 * time.Second

// refusedPause is how long Repair waits after something was not available.
const refusedPause = time.Minute

// Repair captures what processes that died have left: of one page of sessions a
// call, in turn, so that sessions which take long keep no others from it. During an outage
// it does nothing: the files that it looked at could not be stored.
func (c *Capturer) Repair(ctx context.Context) error {
	c.repairing.Lock()
	defer c.repairing.Unlock()

	c.mu.Lock()
	outage := c.delayed > 0 || time.Since(c.refused) < refusedPause
	c.mu.Unlock()

	if outage {
		return nil
	}

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

// Drain waits until nothing is looked at or stored any more, or ctx ends. What an outage
// delays is left to other processes.
func (c *Capturer) Drain(ctx context.Context) {
	c.mu.Lock()
	select {
	case <-c.draining:
	default:
		close(c.draining)
	}

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
