package githost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"everloop/companions/edge"
	"everloop/companions/githost/hook"
)

// Bounds of the directory.
const (
	maxRepositories = 2000 // of an organisation, equal to the registry's maximum of skills
	maxOrgs         = 10_000
	lockWait        = time.Minute // max wait for maintenance, or another push to main
)

// store is the directory of all repositories:
//
//	repositories/{org}/{name}.git  bare repositories
//	hooks/pre-receive              link to the hook's program
//	empty.git                      what a repository looks like before its first push
//	home, work                     empty; temporary files
//	lock                           held by the one process that uses the directory
type store struct {
	dir  string
	git  *git
	lock *os.File

	mu      sync.Mutex
	handles map[repoID]*repository
	making  sync.Mutex // serializes creation, so that the bounds are exact
}

// repository is an existing repository.
type repository struct {
	id  repoID
	dir string
	// Each push acquires one unit of use, maintenance all.
	use *semaphore.Weighted
	// published is locked by a push to main from its checks to its end.
	published *semaphore.Weighted
}

func (r *repository) place() place { return place{dir: r.dir} }

// openStore locks the directory, and removes leftovers of a killed process.
func openStore(ctx context.Context, cfg Config) (*store, error) {
	s := &store{dir: cfg.Dir, handles: map[repoID]*repository{}}
	for _, name := range []string{"", "repositories", "hooks", "home"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("git hosting: %w", err)
		}
	}

	var err error
	if s.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("git hosting: %w", err)
	}

	if err := s.prepare(ctx, cfg); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("git hosting: %w", err)
	}

	return s, nil
}

func (s *store) prepare(ctx context.Context, cfg Config) error {
	if err := takeLock(ctx, s.lock); err != nil {
		return err
	}

	hooks := filepath.Join(s.dir, "hooks")
	if err := link(cfg.Program, filepath.Join(hooks, hook.Name)); err != nil {
		return err
	}

	var err error
	if s.git, err = newGit(hooks, filepath.Join(s.dir, "home"), uint64(cfg.Memory), 2*uint64(cfg.RepositoryBytes)); err != nil {
		return err
	}

	for _, name := range []string{"work", "empty.git"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}

	if err := os.Mkdir(s.work(), 0o700); err != nil {
		return err
	}

	if err := s.initialise(ctx, s.empty().dir); err != nil {
		return err
	}

	return s.clean()
}

// takeLock locks the directory, waiting some seconds for a process that is about to end.
func takeLock(ctx context.Context, file *os.File) error {
	const within, pause = 10 * time.Second, 100 * time.Millisecond

	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}

		select {
		case <-ctx.Done():
			return errors.New("another process uses the directory of git hosting: only one may")
		case <-time.After(pause):
		}
	}
}

// link creates or replaces a symbolic link.
func link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}

	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if err := os.Symlink(target, fresh); err != nil {
		return err
	}

	return os.Rename(fresh, path)
}

func (s *store) close() { s.lock.Close() }

func (s *store) work() string  { return filepath.Join(s.dir, "work") }
func (s *store) empty() place  { return place{dir: filepath.Join(s.dir, "empty.git")} }
func (s *store) roots() string { return filepath.Join(s.dir, "repositories") }

// initialise creates an empty repository.
func (s *store) initialise(ctx context.Context, dir string) error {
	return s.git.run(ctx, place{dir: dir}, nil, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", dir)
}

// clean removes leftovers of interrupted pushes: locks of references, and objects that were not
// accepted. No git process uses the repositories at this time: each ended with its service.
func (s *store) clean() error {
	list, err := s.list()
	if err != nil {
		return err
	}

	for _, id := range list {
		dir := s.path(id)

		left, err := filepath.Glob(filepath.Join(dir, "objects", "tmp_objdir-*"))
		if err != nil {
			return err
		}

		locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
		if err != nil {
			return err
		}

		left = append(left, locks...)

		err = filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".lock") {
				left = append(left, path)
			}

			return err
		})
		if err != nil {
			return err
		}

		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}

	return nil
}

func (s *store) path(id repoID) string { return filepath.Join(s.roots(), id.org, id.name+suffix) }

// list returns all repositories, sorted by name.
func (s *store) list() ([]repoID, error) {
	var all []repoID

	orgs, err := os.ReadDir(s.roots())
	if err != nil {
		return nil, err
	}

	for _, org := range orgs {
		entries, err := os.ReadDir(filepath.Join(s.roots(), org.Name()))
		if err != nil {
			return nil, err
		}

		for _, entry := range entries {
			name, whole := strings.CutSuffix(entry.Name(), suffix)
			if id, err := newRepoID(org.Name(), name); err == nil && whole {
				all = append(all, id)
			}
		}
	}

	slices.SortFunc(all, func(a, b repoID) int { return strings.Compare(a.String(), b.String()) })

	return all, nil
}

// get returns a repository; false when there is none.
func (s *store) get(id repoID) (*repository, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if r, ok := s.handles[id]; ok {
		return r, true, nil
	}

	if _, err := os.Stat(s.path(id)); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}

	r := &repository{
		id: id, dir: s.path(id),
		use: semaphore.NewWeighted(math.MaxInt32), published: semaphore.NewWeighted(1),
	}
	s.handles[id] = r

	return r, true, nil
}

// occupy returns a repository for a push, and creates it if it does not exist. The caller must
// release one unit of its use.
func (s *store) occupy(ctx context.Context, id repoID) (*repository, error) {
	for {
		repo, err := s.ensure(ctx, id)
		if err != nil {
			return nil, err
		}

		if err := take(ctx, repo.use, 1); err != nil {
			return nil, err
		}

		if now, there, err := s.get(id); err == nil && there && now == repo {
			return repo, nil
		}

		repo.use.Release(1) // it was empty, and was removed
	}
}

// dropEmpty deletes a repository without branches and tags, unless it is in use.
func (s *store) dropEmpty(ctx context.Context, repo *repository) error {
	s.making.Lock()
	defer s.making.Unlock()

	if !repo.use.TryAcquire(math.MaxInt32) {
		return nil
	}
	defer repo.use.Release(math.MaxInt32)

	refs, err := s.git.output(ctx, repo.place(), maxRefsText, "for-each-ref", "--count=1")
	if err != nil || len(refs) > 0 {
		return err
	}

	gone, err := os.MkdirTemp(s.work(), "gone-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(gone)

	s.mu.Lock()
	defer s.mu.Unlock()

	if err := os.Rename(repo.dir, filepath.Join(gone, "repository")); err != nil {
		return err
	}

	delete(s.handles, repo.id)

	_ = os.Remove(filepath.Dir(repo.dir)) // of the organisation; fails if it has other repositories

	return nil
}

// ensure returns a repository, and creates it if it does not exist.
func (s *store) ensure(ctx context.Context, id repoID) (*repository, error) {
	if r, ok, err := s.get(id); ok || err != nil {
		return r, err
	}

	s.making.Lock()
	defer s.making.Unlock()

	if r, ok, err := s.get(id); ok || err != nil {
		return r, err
	}

	org := filepath.Join(s.roots(), id.org)
	if err := bound(s.roots(), org, maxOrgs); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(org, 0o700); err != nil {
		return nil, err
	}

	if err := bound(org, s.path(id), maxRepositories); err != nil {
		return nil, err
	}

	fresh, err := os.MkdirTemp(s.work(), "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(fresh)

	if err := s.initialise(ctx, fresh); err != nil {
		return nil, err
	}

	if err := os.Rename(fresh, s.path(id)); err != nil {
		return nil, err
	}

	if err := syncDir(org); err != nil {
		return nil, err
	}

	r, _, err := s.get(id)

	return r, err
}

// bound rejects another entry in a directory that has reached its maximum.
func bound(dir, entry string, most int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) && len(entries) >= most {
		return edge.Refuse(http.StatusConflict, "too_many_repositories", "there is no room for one more repository: at most %d", most)
	}

	return nil
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()

	return file.Sync()
}

// size returns the bytes of all files below a directory.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git has deleted it in the meantime
		}

		if err != nil || entry.IsDir() {
			return err
		}

		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}

		if err == nil {
			bytes += info.Size()
		}

		return err
	})

	return bytes, err
}

// take acquires units of a semaphore within lockWait.
func take(ctx context.Context, lock *semaphore.Weighted, n int64) error {
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()

	if err := lock.Acquire(waiting, n); err != nil {
		return edge.Refuse(http.StatusServiceUnavailable, "repository_busy", "another push or maintenance takes its time: try again")
	}

	return nil
}
