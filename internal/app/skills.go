package app

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/infra/skillregistry"
	"everloop/service/skills"
)

// skillSettings say where skills come from.
type skillSettings struct {
	RegistryURL string `name:"registry-url" env:"REGISTRY_URL" help:"The skill registry that skills are installed from."`
}

func (s *skillSettings) check() error {
	if s.RegistryURL == "" {
		return nil
	}

	at, err := url.Parse(s.RegistryURL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("REGISTRY_URL must start with http:// or https://")
	}

	return nil
}

// newSkills gives the skills of this role, and provides its tools with the one
// that loads them. oneUser says that sessions have no users of their own.
func (b *backend) newSkills(registry *tools.Registry, oneUser bool) (*skills.Service, error) {
	s, err := skills.New(skills.Config{
		Dir: filepath.Join(b.settings.DataDir, "agent_env", "skills"), Workspaces: b.workspace, OneUser: oneUser, Store: b.DB,
		Registry: skillregistry.New(b.settings.RegistryURL), Logger: b.logger, Room: b.settings.Room(b.settings.DataDir),
		Wanted: func(session domain.Session) []string { return b.Profile(session).Skills },
	})
	if err != nil {
		return nil, err
	}

	for _, solution := range b.solutions.All() {
		missing, err := s.Missing(context.Background(), solution.Skills)
		if err != nil {
			return nil, err
		}

		if len(missing) > 0 {
			b.logger.Warn("skills of a solution are missing unless a user installs them", "solution", solution.ID, "skills", missing)
		}
	}

	registry.Provide(builtin.NewSkillTool(s, b.logger))

	return s, nil
}
