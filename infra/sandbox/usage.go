//go:build linux

package sandbox

import (
	"context"
	"sync"
	"time"

	"everloop/internal/diskspace"
)

const (
	// firstScan is when a running command's workspace is first measured: the
	// many short commands are not worth it.
	firstScan = 250 * time.Millisecond
	// scanShare bounds what measuring costs: a pause is at least this many
	// times as long as the scan before it.
	scanShare = 20
	// shortShare is the same while the disk is short.
	shortShare = 1
	// longestPause is the maximum time between measurements of a huge workspace.
	longestPause = 10 * time.Second
	// scanTime bounds one scan, which the next continues with.
	scanTime = 5 * time.Second
	// restScan is how often short commands, together, lead to a scan.
	restScan = 5 * time.Second
	// usageSlack is how much a command may add to a workspace that is already too full,
	// so that it can be emptied, and to a disk that is short of space.
	usageSlack = 1 << 20
	// inodeSlack is the same in files and directories.
	inodeSlack = 1000
	// hiddenFrom is by how much more than the workspace grew the free space must have
	// fallen for files to be looked for that are deleted and still open.
	hiddenFrom = 16 << 20
	// shortPause is the time after a command was ended for a short disk in which no
	// other is: its space is released first.
	shortPause = 500 * time.Millisecond
)

// usageBook remembers the last measured size of workspaces, so that a command
// in one that is already too full is not killed for files that existed before: it may free
// space, but not use more. It also contains the running commands.
type usageBook struct {
	mu      sync.Mutex
	known   map[string]measured
	running map[*Process]*growth
	ended   time.Time // when a command was last ended because the disk is short
}

type measured struct {
	used diskspace.Usage
	at   time.Time
}

// growth is the number of bytes that a running command has added.
type growth struct {
	device uint64
	// mark is the size of the workspace when it was last measured while there was
	// enough space on the disk, or at the first measurement.
	mark   diskspace.Usage
	marked bool
	added  diskspace.Usage // since then
}

// maxMeasured bounds the book; it is only a cache.
const maxMeasured = 4096

func (u *usageBook) get(workspace string) measured {
	u.mu.Lock()
	defer u.mu.Unlock()

	return u.known[workspace]
}

func (u *usageBook) set(workspace string, used diskspace.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.known == nil || len(u.known) >= maxMeasured {
		u.known = map[string]measured{}
	}

	u.known[workspace] = measured{used, time.Now()}
}

func (u *usageBook) forget(workspace string) {
	u.mu.Lock()
	defer u.mu.Unlock()

	delete(u.known, workspace)
}

// begin notes a running command, end that it has ended.
func (u *usageBook) begin(p *Process) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.running == nil {
		u.running = map[*Process]*growth{}
	}

	u.running[p] = &growth{device: p.in.dir.dev}
}

func (u *usageBook) end(p *Process) {
	u.mu.Lock()
	defer u.mu.Unlock()

	delete(u.running, p)
}

// looked records the current size of a command's workspace, including files that only the
// command still has open. short reports that the disk is short of space.
func (u *usageBook) looked(p *Process, used diskspace.Usage, short bool) {
	u.mu.Lock()
	defer u.mu.Unlock()

	g := u.running[p]
	if g == nil {
		return
	}

	if !g.marked || !short {
		g.mark, g.marked = used, true
	}

	g.added = used.Minus(g.mark)
}

// most returns the command that has added most to a file system that is short of
// space, nil when none has added anything worth mentioning, or one was just ended.
func (u *usageBook) most(device uint64) *Process {
	u.mu.Lock()
	defer u.mu.Unlock()

	if time.Since(u.ended) < shortPause {
		return nil
	}

	var found *Process

	most := 1.0

	for p, g := range u.running {
		if g.device != device {
			continue
		}

		share := max(float64(g.added.Bytes)/usageSlack, float64(g.added.Inodes)/inodeSlack)
		if share > most {
			found, most = p, share
		}
	}

	if found != nil {
		u.ended = time.Now()
		delete(u.running, found)
	}

	return found
}

// watcher measures the workspace of one command while it runs, and ends the command
// when it exceeds its limit. When the disk is short of space, it ends the one command of this
// service that added most.
type watcher struct {
	s       *Sandbox
	p       *Process
	allowed diskspace.Usage
	// What was free on the disk, and in the workspace at the first look, when the
	// command held no deleted files.
	began diskspace.Space
	start diskspace.Usage

	used   diskspace.Usage // by the last whole scan
	whole  bool            // there was one
	hidden diskspace.Usage // deleted and still open
	scan   *diskspace.Scan // that is not at its end
	due    time.Time       // when to measure again, if the disk is not short
}

// watch starts to measure; p.mu is held.
func (s *Sandbox) watch(p *Process) {
	limit := diskspace.Usage{Bytes: p.spec.Limits.Workspace, Inodes: p.spec.Limits.Inodes}
	if p.spec.Private {
		return
	}

	w := &watcher{s: s, p: p, allowed: limit}
	w.began, _ = diskspace.Of(p.spec.Workspace) // without it, no deleted files are looked for
	p.watcher = w

	first := firstScan
	if known := s.usage.get(p.spec.Workspace); known.used.Exceeds(limit) {
		first /= 10
		w.allowed = slack(limit, known.used)
	}

	s.usage.begin(p)
	p.scan = time.AfterFunc(first, func() {
		pause, over := w.look()

		p.mu.Lock()
		defer p.mu.Unlock()

		if over || p.over {
			w.close()
			return
		}

		p.scan.Reset(pause)
	})
}

// slack allows a workspace that is too full to grow by a little.
func slack(limit, used diskspace.Usage) diskspace.Usage {
	if limit.Bytes > 0 {
		limit.Bytes = max(limit.Bytes, used.Bytes+usageSlack)
	}

	if limit.Inodes > 0 {
		limit.Inodes = max(limit.Inodes, used.Inodes+inodeSlack)
	}

	return limit
}

// look reads the free space, measures when that is due or the disk is short of space, and
// returns the time until the next call, or that the command was ended.
func (w *watcher) look() (pause time.Duration, over bool) {
	began := time.Now()

	space, err := diskspace.Of(w.p.spec.Workspace)
	if err != nil {
		return longestPause, false // the workspace was deleted, and the command will be ended
	}

	short := w.s.short(space)
	if !short && (w.allowed == (diskspace.Usage{}) || began.Before(w.due)) {
		return firstScan, false
	}

	used := w.measure()
	w.lookForHidden(space, used, short)

	used = used.Plus(w.hidden)
	if used.Exceeds(w.allowed) {
		w.p.end(WorkspaceFull)
		return 0, true
	}

	if w.whole {
		w.s.usage.looked(w.p, used, short)
	}

	if short {
		if most := w.s.usage.most(w.p.in.dir.dev); most != nil {
			most.end(DiskFull)
		}
	}

	w.due = time.Now().Add(min(scanShare*time.Since(began), longestPause))

	return max(firstScan, shortShare*time.Since(began)), false
}

// short reports whether a file system has less space left than commands may leave.
func (s *Sandbox) short(space diskspace.Space) bool {
	return space.FreeBytes < s.config.MinFree || s.config.Reserve.Touched(space, diskspace.Usage{})
}

// measure continues the scan of the workspace. It returns the size by the last complete
// scan, or the size found so far by this scan when that is more.
func (w *watcher) measure() diskspace.Usage {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The scan ends with the command.
	go func() {
		select {
		case <-w.p.done:
			cancel()
		case <-ctx.Done():
		}
	}()

	if w.scan == nil {
		var err error
		if w.scan, err = diskspace.NewScan(w.p.spec.Workspace); err != nil {
			return w.used
		}
	}

	done, err := w.scan.Step(ctx, w.allowed, time.Now().Add(scanTime))

	found := w.scan.Used()
	if done && err == nil {
		if !w.whole {
			w.start = found
		}

		w.used, w.whole = found, true
		w.s.usage.set(w.p.spec.Workspace, found)
	}

	if done || err != nil {
		w.close()
	}

	return diskspace.Usage{Bytes: max(w.used.Bytes, found.Bytes), Inodes: max(w.used.Inodes, found.Inodes)}
}

// lookForHidden counts unlinked files that the command has
// open, when the disk has lost more space than the workspace has gained.
func (w *watcher) lookForHidden(space diskspace.Space, used diskspace.Usage, short bool) {
	lost := w.began.FreeBytes - space.FreeBytes - (used.Bytes - w.start.Bytes)
	if !short && lost < hiddenFrom && w.hidden.Bytes == 0 {
		return
	}

	w.hidden = deletedFiles(w.p.in.pid, w.p.in.dir.dev)
	if w.hidden.Bytes == 0 { // another writer took the space
		w.began, w.start = space, used
	}
}

// close releases the resources of an unfinished scan. No scan follows.
func (w *watcher) close() {
	if w.scan != nil {
		w.scan.Close()
		w.scan = nil
	}
}

// after measures a workspace in which only short commands ran for a while, or
// that a command has just filled: the scan that noticed stopped at the limit.
func (u *usageBook) after(p *Process) {
	limits := p.spec.Limits
	if limits.Workspace <= 0 && limits.Inodes <= 0 || p.result.Cause != WorkspaceFull && time.Since(u.get(p.spec.Workspace).at) < restScan {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), afterTime)
	defer cancel()

	if used, err := diskspace.Measure(ctx, p.spec.Workspace, diskspace.Usage{}); err == nil {
		u.set(p.spec.Workspace, used)
	}
}

// afterTime bounds how long the end of a command that filled its workspace waits for
// the measure of it.
const afterTime = time.Minute
