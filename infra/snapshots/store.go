//go:build linux

package snapshots

import (
	"context"
	"encoding/hex"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"everloop/domain"
	"everloop/internal/diskspace"
)

// Objects is the object store of snapshots. A missing object is a domain error of kind NotFound.
type Objects interface {
	// Put stores data under a key and overwrites an existing object.
	Put(ctx context.Context, key string, data []byte) error
	// Get returns the object of a key.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange returns length bytes from offset.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// DeletePrefix removes everything below a prefix.
	DeletePrefix(ctx context.Context, prefix string) error
}

// Config is the configuration of a Store.
type Config struct {
	Objects Objects
	// SpoolDir is a private directory of the service, on a disk, for contents between reading and
	// storing. It is created when missing. Empty: the system's temporary directory.
	SpoolDir string
	// Reserve is the part of the spool's file system that must stay free.
	Reserve diskspace.Reserve
	// Logger receives messages about rebuilt snapshots; nil: slog's default.
	Logger *slog.Logger
	// CachedEntries is the maximum number of cached tree entries, of some 300 bytes each; 0:
	// 500,000.
	CachedEntries int
	// MaxEntries is the maximum number of files and directories in a snapshot, which are all in
	// memory during a capture; 0: 1,000,000.
	MaxEntries int
}

// Store creates, restores and reads snapshots. It is safe for concurrent use. It caches the last
// state of each session for speed; its results do not depend on the cache.
type Store struct {
	objects Objects
	spool   string
	reserve diskspace.Reserve
	log     *slog.Logger
	budget  int
	most    int
	workers int
	grain   time.Duration // see clockGrain

	compactContents int64
	compactParts    int

	mu       sync.Mutex
	sessions map[domain.SessionID]*session
	clock    uint64 // counts uses of sessions
}

// New returns a new Store.
func New(cfg Config) *Store {
	s := &Store{
		objects: cfg.Objects, spool: cfg.SpoolDir, reserve: cfg.Reserve, log: cfg.Logger, budget: cfg.CachedEntries, most: cfg.MaxEntries,
		workers: min(max(runtime.GOMAXPROCS(0), 2), 8), sessions: map[domain.SessionID]*session{}, grain: clockGrain,
		compactContents: compactContents, compactParts: compactParts,
	}
	if s.spool == "" {
		s.spool = os.TempDir()
	}

	if s.log == nil {
		s.log = slog.Default()
	}

	if s.budget <= 0 {
		s.budget = 500_000
	}

	if s.most <= 0 {
		s.most = 1_000_000
	}

	return s
}

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

func checkSession(id domain.SessionID) error {
	if !sessionName.MatchString(string(id)) {
		return domain.Newf(domain.Malformed, CodeBadID, "this is not a session id")
	}

	return nil
}

// makeID returns a snapshot's id: the session id and the hash of the tree.
func makeID(session domain.SessionID, sum hash) string {
	return string(session) + "." + sum.String()
}

func parseID(id string) (session domain.SessionID, sum hash, err error) {
	name, digits, _ := strings.Cut(id, ".")
	session = domain.SessionID(name)

	raw, bad := hex.DecodeString(digits)
	if bad != nil || len(raw) != len(sum) || digits != hex.EncodeToString(raw) || checkSession(session) != nil {
		return "", sum, domain.Newf(domain.Invalid, CodeBadID, "this is not an id of a snapshot")
	}

	return session, hash(raw), nil
}

func prefixOf(session domain.SessionID) string {
	return "snapshots/" + string(session) + "/"
}

func manifestKey(session domain.SessionID, h hash) string {
	return prefixOf(session) + "manifests/" + h.String()
}

func partKey(session domain.SessionID, h hash) string {
	return prefixOf(session) + "parts/" + h.String()
}

func packKey(session domain.SessionID, h hash) string {
	return prefixOf(session) + "packs/" + h.String()
}

func chunkKey(session domain.SessionID, h hash) string {
	return prefixOf(session) + "chunks/" + h.String()
}

// DeleteSession removes all snapshots of a session. No capture of the session may run
// concurrently.
func (s *Store) DeleteSession(ctx context.Context, sessionID domain.SessionID) error {
	if err := checkSession(sessionID); err != nil {
		return err
	}

	s.mu.Lock()
	delete(s.sessions, sessionID)
	s.mu.Unlock()

	return s.objects.DeletePrefix(ctx, prefixOf(sessionID))
}
