// Package githost is the git hosting service: a repository for each skill, used by git clients
// over HTTP. A push to the branch main is accepted when the skill registry has published the
// version in its SKILL.md.
//
// It is a separate service, reached only over HTTP, with bare repositories in its own
// directory. The agent authenticates callers (companions/credentials), and the registry
// authorizes writers of an organisation. It must not depend on how skills are used.
package githost

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// Config configures the service.
type Config struct {
	Dir         string // directory of all its data; created when it is missing
	RegistryURL string
	Credentials *credentials.Checker
	Hosts       hosts.List
	Proxies     clients.Proxies // whose X-Forwarded-For names the client
	Log         *slog.Logger    // nil: no logs
	// Program is a binary that links companions/githost/hook; this process's when empty.
	Program string

	RepositoryBytes int64 // of one repository on disk; 0: DefaultRepositoryBytes

	// OrganizationBytes bounds all repositories of an organisation on disk; 0:
	// DefaultOrganizationBytes.
	OrganizationBytes int64
	// Room returns an error while there is not enough space for a push; nil: unlimited.
	Room func() error

	PushBytes int64 // of one push, as it is sent; 0: DefaultPushBytes
	Processes int   // max concurrent git requests; 0: DefaultProcesses
	Memory    int64 // bytes of address space of one git process; 0: DefaultMemory, negative: no limit
}

// Defaults of the limits.
const (
	DefaultRepositoryBytes = 1 << 30
	DefaultPushBytes       = 256 << 20
	DefaultProcesses       = 8
	DefaultMemory          = 3 << 30

	DefaultOrganizationBytes = 10 << 30
)

// Bounds of concurrent work.
const (
	slotWait     = 30 * time.Second
	transferTime = 15 * time.Minute // of one clone or push, with the slowest client
	requestTime  = 30 * time.Second // of any other request
)

// Service is the git hosting service.
type Service struct {
	cfg      Config
	log      *slog.Logger
	store    *store
	registry *registry
	slots    queue // of clients of git
	views    queue // of pages
	upkeep   chan repoID
	pages    http.Handler
	version  string // of git

	checking sync.Mutex
	checked  time.Time // time of found
	found    state
}

// Open locks the directory. The caller must close the service.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}

	if cfg.RepositoryBytes == 0 {
		cfg.RepositoryBytes = DefaultRepositoryBytes
	}

	if cfg.OrganizationBytes == 0 {
		cfg.OrganizationBytes = DefaultOrganizationBytes
	}

	if cfg.PushBytes == 0 {
		cfg.PushBytes = DefaultPushBytes
	}

	if cfg.Processes == 0 {
		cfg.Processes = DefaultProcesses
	}

	switch {
	case cfg.Memory == 0:
		cfg.Memory = DefaultMemory
	case cfg.Memory < 0:
		cfg.Memory = 0
	}

	var err error
	if cfg.Program == "" {
		if cfg.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}

	for _, path := range []*string{&cfg.Dir, &cfg.Program} { // git runs in another directory
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}

	s := &Service{
		cfg: cfg, log: cfg.Log, registry: newRegistry(cfg.RegistryURL),
		slots: newQueue(cfg.Processes, slotWait), views: newQueue(cfg.Processes, slotWait),
		upkeep: make(chan repoID, maxUpkeep),
	}
	if s.store, err = openStore(ctx, cfg); err != nil {
		return nil, err
	}

	if s.version, err = s.store.git.version(ctx); err != nil {
		s.store.close()
		return nil, fmt.Errorf("git hosting: %w", err)
	}

	s.pages = s.pageRoutes()

	return s, nil
}

// Close unlocks the directory.
func (s *Service) Close() { s.store.close() }

// Serve handles requests, and repacks repositories, until ctx ends. It closes the listener and
// the service.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	defer s.Close()

	maintaining, stop := context.WithCancel(ctx)

	ended := make(chan struct{})
	go func() {
		defer close(ended)

		s.maintain(maintaining)
	}()

	defer func() { stop(); <-ended }()

	return edge.Service{
		Name: "git hosting", Handler: s.Handler(), Hosts: s.cfg.Hosts, Proxies: s.cfg.Proxies, Log: s.log,
	}.Serve(ctx, listener)
}

// pagePrefix is the prefix of pages' paths: no organisation can have this name.
const pagePrefix = "/-/"

// Handler returns the handler of the whole service, without the guard of its listener.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/", path == "/api/health", path == "/readyz", strings.HasPrefix(path, pagePrefix):
			s.pages.ServeHTTP(w, r)
		default:
			s.serveGit(w, r)
		}
	})
}

func (s *Service) handle(mux *http.ServeMux, route string, serve func(w http.ResponseWriter, r *http.Request) error) {
	mux.HandleFunc(route, edge.Handle(s.log, func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()

		edge.Extend(w, requestTime+slotWait)

		return serve(w, r.WithContext(ctx))
	}))
}

// state is the result of a health check.
type state struct {
	Status       string `json:"status"`
	Repositories int    `json:"repositories"`
	GitVersion   string `json:"git_version"`
	StorageOK    bool   `json:"storage_ok"`
	RegistryOK   bool   `json:"registry_ok"`
}

// health reports whether repositories can be read.
func (s *Service) health(w http.ResponseWriter, r *http.Request) error {
	return s.report(w, r, func(now state) bool { return now.StorageOK && now.GitVersion != "" })
}

// ready reports whether the service also accepts pushes.
func (s *Service) ready(w http.ResponseWriter, r *http.Request) error {
	return s.report(w, r, func(now state) bool { return now.StorageOK && now.GitVersion != "" && now.RegistryOK })
}

func (s *Service) report(w http.ResponseWriter, r *http.Request, good func(state) bool) error {
	now := s.state(r.Context())

	status := http.StatusOK
	if !good(now) {
		now.Status, status = "unavailable", http.StatusServiceUnavailable
	}

	edge.WriteJSON(w, status, now)

	return nil
}

// Bounds of a health check, which needs no credentials.
const (
	checkTime = 5 * time.Second
	checkEach = time.Second // requests within it share one result
)

// state checks the service, at most once in checkEach.
func (s *Service) state(ctx context.Context) state {
	s.checking.Lock()
	defer s.checking.Unlock()

	if time.Since(s.checked) < checkEach {
		return s.found
	}
	// The result is shared: it must not be cancelled with its request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()

	list, listed := s.store.list()

	file, err := os.CreateTemp(s.store.work(), "probe-")
	if err == nil {
		file.Close()
		err = os.Remove(file.Name())
	}

	s.found = state{
		Status: "ok", Repositories: len(list), StorageOK: listed == nil && err == nil, RegistryOK: s.registry.ping(ctx) == nil,
		GitVersion: s.version,
	}
	s.checked = time.Now()

	return s.found
}
