package history

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/domain"
)

// Capturer captures the files of checkpoints beside the chats. Of one session
// one look at the files is taken at a time; storing what was seen goes on while
// tools run again. What it does not come to, because its process dies, is done
// by whoever needs it next, or by Sweep.
type Capturer struct {
	Records Captures
	Files   Files
	Process string // names this process among others
	Logger  *slog.Logger

	mu       sync.Mutex
	sessions map[string]*capturing
	active   int           // looks and uploads under way or waiting for their turn
	idle     chan struct{} // for who waits until none is; closed then
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

// capturing is what is under way for one session.
type capturing struct {
	users  int           // guarded by Capturer.mu
	queued bool          // a look that has not begun; guarded by Capturer.mu
	look   chan struct{} // holds one token: who looks at the files has it

	mu     sync.Mutex
	inHand map[string]chan struct{} // checkpoints being stored; closed when that is over
}

func (c *Capturer) enter(sessionID string) *capturing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[string]*capturing{}
	}
	s := c.sessions[sessionID]
	if s == nil {
		s = &capturing{look: make(chan struct{}, 1), inHand: map[string]chan struct{}{}}
		c.sessions[sessionID] = s
	}
	s.users++
	return s
}

func (c *Capturer) leave(sessionID string, s *capturing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(c.sessions, sessionID)
	}
}

// lookTimeout bounds one look at a workspace and what storing it takes.
const lookTimeout = 10 * time.Minute

// Changed says that files of the session may have changed and are to be captured.
// It returns at once.
func (c *Capturer) Changed(sessionID string) {
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
			c.Logger.Warn("files not captured", "session_id", sessionID, "error", err)
		}
	}()
}

func (c *Capturer) locked(ctx context.Context, s *capturing, do func() error) error {
	select {
	case s.look <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.look }()
	return do()
}

// heldPoll is how often work that another process has in hand is looked at.
const heldPoll = 100 * time.Millisecond

// Settle returns when the files of everything that is due have been seen, so that
// tools may change them. What cannot be captured is given up: a tool does not
// wait for ever.
func (c *Capturer) Settle(ctx context.Context, sessionID string) error {
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
func (c *Capturer) Settled(ctx context.Context, sessionID string) error {
	if err := c.Settle(ctx, sessionID); err != nil {
		return err
	}
	s := c.enter(sessionID)
	defer c.leave(sessionID, s)
	return s.stored(ctx)
}

// Flush returns when the files of every checkpoint of an idle session are stored,
// and recorded.
func (c *Capturer) Flush(ctx context.Context, sessionID string) error {
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
func (c *Capturer) capture(ctx context.Context, sessionID string, s *capturing, all bool) (held int, err error) {
	due, err := c.Records.TakeCaptures(ctx, sessionID, c.Process, s.hand(), all)
	if err != nil || len(due.IDs) == 0 {
		return due.Held, err
	}
	stop := c.keep(ctx, due.IDs)
	in := CaptureIn{SessionID: sessionID, SandboxUID: due.SandboxUID, Previous: due.Previous, Busy: due.Busy}
	pending, err := c.Files.Begin(ctx, in)
	if err != nil && in.Previous != "" && ctx.Err() == nil {
		in.Previous = "" // the store cannot give it now: what was there is still seen
		pending, err = c.Files.Begin(ctx, in)
	}
	if err != nil {
		stop()
		c.giveBack(ctx, sessionID, due.IDs, err)
		return due.Held, err
	}
	over := s.begin(due.IDs)
	c.enter(sessionID)
	done := c.work()
	go func() {
		defer done()
		defer c.leave(sessionID, s)
		defer stop()
		defer over()
		c.store(context.WithoutCancel(ctx), due, pending)
	}()
	return due.Held, nil
}

// giveBack leaves checkpoints for another try when the caller went away, and
// gives them up when their files cannot be read.
func (c *Capturer) giveBack(ctx context.Context, sessionID string, ids []string, cause error) {
	free := context.WithoutCancel(ctx)
	var err error
	if ctx.Err() != nil {
		err = c.Records.LeaveCaptures(free, c.Process, ids)
	} else {
		err = c.Records.FailCaptures(free, ids, cause.Error())
	}
	if err != nil {
		c.Logger.Warn("checkpoints not given back", "session_id", sessionID, "error", err)
	}
}

// renewEvery is how often a process says that it still captures.
const renewEvery = 1500 * time.Millisecond

// keep holds checkpoints for this process until stop.
func (c *Capturer) keep(ctx context.Context, ids []string) (stop func()) {
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		for pause(renewing, renewEvery) == nil {
			if err := c.Records.KeepCaptures(renewing, c.Process, ids); err != nil && renewing.Err() == nil {
				c.Logger.Warn("checkpoints not kept", "error", err)
			}
		}
	}()
	return cancel
}

// storeTries is how often the object store is tried before files are given up.
const storeTries = 4

// store keeps what was seen and records it.
func (c *Capturer) store(ctx context.Context, due domain.DueCaptures, pending Pending) {
	defer pending.Discard()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var snapshot domain.Snapshot
	err := insist(ctx, func() (err error) {
		snapshot, err = pending.Finish(ctx)
		return err
	})
	if err == nil {
		snapshot.Complete = snapshot.Complete && !due.Late
		err = insist(ctx, func() error { return c.Records.RecordCaptures(ctx, due.IDs, snapshot) })
	}
	if err != nil {
		c.Logger.Error("files of a checkpoint are lost", "session_id", due.SessionID, "error", err)
		if err := c.Records.FailCaptures(ctx, due.IDs, err.Error()); err != nil {
			c.Logger.Warn("checkpoints not given up", "session_id", due.SessionID, "error", err)
		}
	}
}

// insist tries again for some seconds.
func insist(ctx context.Context, do func() error) (err error) {
	for try := 1; ; try++ {
		if err = do(); err == nil || try == storeTries || ctx.Err() != nil {
			return err
		}
		if pause(ctx, time.Duration(try*try)*500*time.Millisecond) != nil {
			return err
		}
	}
}

// begin marks checkpoints as being stored.
func (s *capturing) begin(ids []string) (over func()) {
	done := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.inHand[id] = done
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			delete(s.inHand, id)
		}
		close(done)
	}
}

func (s *capturing) hand() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.inHand))
	for id := range s.inHand {
		ids = append(ids, id)
	}
	return ids
}

// stored waits until what is being stored now has been.
func (s *capturing) stored(ctx context.Context) error {
	s.mu.Lock()
	waiting := make([]chan struct{}, 0, len(s.inHand))
	for _, done := range s.inHand {
		waiting = append(waiting, done)
	}
	s.mu.Unlock()
	for _, done := range waiting {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// forgottenAfter is how long a checkpoint may be due before Sweep sees to it.
const forgottenAfter = 10 * time.Second

// Sweep captures what a process that died has left.
func (c *Capturer) Sweep(ctx context.Context) error {
	sessions, err := c.Records.ForgottenCaptures(ctx, forgottenAfter)
	for _, id := range sessions {
		c.Changed(id)
	}
	return err
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
