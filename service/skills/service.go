//go:build linux

package skills

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/skillregistry"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// Config is what a Service works with.
type Config struct {
	Dir        string // DATA_DIR/agent_env/skills
	Workspaces *workspace.Store
	// OneUser reports that sessions have no users of their own on this machine.
	OneUser  bool
	Store    *Store
	Registry *skillregistry.Registries // nil: none is configured
	// Room fails while there is no room for a package; nil: there is always.
	Room func() error
	// Wanted lists the skills that the solution of a session names; nil: none.
	Wanted func(session domain.Session) []string
	Logger *slog.Logger
}

// Service decides which skills a session has, and places their packages. The methods are safe for concurrent use.
type Service struct {
	Config
	builtin   []*entry
	partner   *partners
	store     store
	installed *memo[string, []skill.Installed]
	documents *memo[string, parsed]
	releases  *memo[string, release]
	digests   *memo[string, skillpack.Pack] // of packages in workspaces, by what their files look like
	placing   stripes
}

// How long what other processes may change is believed.
const (
	installedFor = time.Second
	partnersFor  = 2 * time.Second
)

// New checks the skills that come with the service.
func New(cfg Config) (*Service, error) {
	builtin, err := builtinSkills()
	if err != nil {
		return nil, err
	}

	return &Service{
		Config: cfg, builtin: builtin,
		partner:   &partners{dir: cfg.Dir, logger: cfg.Logger},
		store:     store{dir: filepath.Join(cfg.Dir, ".packages"), read: newMemo[string, skillpack.Pack](256, 0), room: cfg.Room},
		installed: newMemo[string, []skill.Installed](10_000, installedFor),
		documents: newMemo[string, parsed](4096, 0),
		releases:  newMemo[string, release](4096, releasesFor),
		digests:   newMemo[string, skillpack.Pack](1024, 0),
	}, nil
}

// open returns a session's workspace.
func (s *Service) open(ctx context.Context, session domain.Session) (*workspace.Workspace, error) {
	uid := session.SandboxUID
	if s.OneUser {
		uid = 0
	}

	return s.Workspaces.Open(ctx, session.ID, uid)
}

// entry is one skill that a user can use.
type entry struct {
	skill.Skill
	doc skillpack.Document
	// pack gives the package outside a workspace; nil for one in a workspace.
	pack func(ctx context.Context) (skillpack.Pack, error)
	// rank is its place among those that the session's solution names, from 1; 0: it
	// is none of them.
	rank int
}

func entryOf(source skill.Source, id string, p skillpack.Pack) *entry {
	return &entry{
		Skill: skill.Skill{
			ID: id, Name: p.Name, Description: p.Description, Version: p.Version, Digest: p.Digest, Source: source,
		},
		doc:  p.Document,
		pack: func(context.Context) (skillpack.Pack, error) { return p, nil },
	}
}

func notFound(name string) error {
	return domain.Newf(domain.NotFound, skill.CodeNotFound, "skill %s does not exist", shorten(name))
}

func shorten(name string) string {
	if len(name) > 100 {
		return name[:100] + "…"
	}

	return name
}
