//go:build linux

package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// firstScan is when a running command's workspace is first measured: the
	// many short commands are not worth it.
	firstScan = 250 * time.Millisecond
	// scanShare bounds what measuring costs: a pause is at least this many
	// times as long as the scan before it.
	scanShare = 20
	// longestPause keeps a huge workspace measured now and then all the same.
	longestPause = 10 * time.Second
	// restScan is how often short commands, together, lead to a scan.
	restScan = 5 * time.Second
	// usageSlack is what a command may add to a workspace that is too full
	// already, so that it can be emptied at all.
	usageSlack = 1 << 20
)

// usageBook remembers the last measured size of workspaces, so that a command
// in one that is already too full is not killed for what it found: it may free
// space, and may not use more.
type usageBook struct {
	mu    sync.Mutex
	known map[string]measured
}

type measured struct {
	bytes int64
	at    time.Time
}

// maxMeasured bounds the book; it is only a cache.
const maxMeasured = 4096

func (u *usageBook) get(workspace string) measured {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known[workspace]
}

func (u *usageBook) set(workspace string, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil || len(u.known) >= maxMeasured {
		u.known = map[string]measured{}
	}
	u.known[workspace] = measured{bytes, time.Now()}
}

func (u *usageBook) forget(workspace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, workspace)
}

// watch measures the workspace while a command runs and ends the command when
// it holds too much; p.mu is held.
func (s *Sandbox) watch(p *Process) {
	if p.spec.Limits.Workspace <= 0 {
		return
	}
	allowed := p.spec.Limits.Workspace
	first := firstScan
	if known := s.usage.get(p.spec.Workspace); known.bytes > allowed {
		allowed, first = known.bytes+usageSlack, firstScan/10
	}
	p.scan = time.AfterFunc(first, func() {
		began := time.Now()
		full := s.full(p, allowed)
		if full {
			p.end(WorkspaceFull)
			return
		}
		pause := min(max(firstScan, scanShare*time.Since(began)), longestPause)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.over {
			p.scan.Reset(pause)
		}
	})
}

func (s *Sandbox) full(p *Process, allowed int64) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(p.spec.Workspace, &fs); err == nil && int64(fs.Bavail)*fs.Bsize < s.config.MinFree {
		return true
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The scan ends with the command.
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	used, err := diskUsage(ctx, p.spec.Workspace, allowed)
	if err != nil {
		return false
	}
	s.usage.set(p.spec.Workspace, used)
	return used > allowed
}

// after measures a workspace in which only short commands ran for a while, or
// that a command has just filled: the scan that noticed stopped at the limit.
func (u *usageBook) after(p *Process) {
	limit := p.spec.Limits.Workspace
	if limit <= 0 || p.result.Cause != WorkspaceFull && time.Since(u.get(p.spec.Workspace).at) < restScan {
		return
	}
	if used, err := diskUsage(context.Background(), p.spec.Workspace, 1<<62); err == nil {
		u.set(p.spec.Workspace, used)
	}
}

var errEnough = errors.New("enough")

// diskUsage adds up the space that a directory tree takes, up to just above
// enough. It never follows a link and never opens a file.
func diskUsage(ctx context.Context, dir string, enough int64) (int64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	scan := usageScan{ctx: ctx, enough: enough, buf: make([]byte, 32<<10)}
	err = scan.dir(fd, 0)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return scan.total, err
}

type usageScan struct {
	ctx    context.Context
	enough int64
	total  int64
	buf    []byte
	names  []string
}

// dir adds an open directory and closes it.
func (u *usageScan) dir(fd, depth int) error {
	defer func() { _ = unix.Close(fd) }()
	if depth > 512 {
		return nil // the path is at its limit long before
	}
	var below []string
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.ReadDirent(fd, u.buf)
		if err != nil || n <= 0 {
			break
		}
		_, _, u.names = unix.ParseDirent(u.buf[:n], -1, u.names[:0])
		for _, name := range u.names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone meanwhile
			}
			// A file with several names counts several times, which only hard
			// links notice; an empty file costs its inode.
			u.total += st.Blocks*512 + 256
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				below = append(below, name)
			}
		}
		if u.total > u.enough {
			return errEnough
		}
	}
	for _, name := range below {
		child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if err := u.dir(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}
