package githost

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Bounds of maintenance.
const (
	manyPacks  = 20 // each push adds one
	maxUpkeep  = 100
	repackTime = 10 * time.Minute
)

// plan schedules a repack of a repository that has many packs, or whose branches were deleted,
// because unreachable objects count against the quota until then.
func (s *Service) plan(repo *repository, removed bool) {
	if !removed && packs(repo.dir) < manyPacks {
		return
	}

	select {
	case s.upkeep <- repo.id:
	default: // the next push schedules it again
	}
}

func packs(dir string) (n int) {
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if err != nil {
		return 0
	}

	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".pack") {
			n++
		}
	}

	return n
}

// maintain repacks repositories sequentially until ctx ends.
func (s *Service) maintain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.upkeep:
			if err := s.repack(ctx, id); err != nil && ctx.Err() == nil {
				s.log.Warn("failed to repack a repository; a later push retries", "repository", id.String(), "error", err)
			}
		}
	}
}

// repack writes one pack of all objects that a branch or tag reaches, and deletes the others,
// while there is no push.
func (s *Service) repack(ctx context.Context, id repoID) error {
	repo, ok, err := s.store.get(id)
	if err != nil || !ok {
		return err
	}

	if err := take(ctx, repo.use, math.MaxInt32); err != nil {
		return err
	}
	defer repo.use.Release(math.MaxInt32)

	ctx, cancel := context.WithTimeout(ctx, repackTime)
	defer cancel()

	return s.store.git.run(ctx, repo.place(), nil, nil, "gc", "--quiet", "--prune=now")
}
