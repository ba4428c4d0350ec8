package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/infra/skillregistry"
	"everloop/internal/app/flags"
	"everloop/service/skills"
)

// skillSettings say where skills come from.
type skillSettings struct {
	RegistryURL string   `name:"registry-url" env:"REGISTRY_URL" help:"The skill registry that skills are installed from."`
	Partners    []string `name:"partner-registries" env:"PARTNER_REGISTRIES" help:"Registries of partners, as ORGANISATION=URL, separated by commas: skills of that organisation are installed from there."`
}

func (s *skillSettings) check() error {
	_, err := s.partners()
	return errors.Join(flags.CheckURL("REGISTRY_URL", s.RegistryURL), err)
}

// partners returns the addresses of the registries by organisation.
func (s *skillSettings) partners() (map[string]string, error) {
	addresses := map[string]string{}

	for _, text := range s.Partners {
		org, address, _ := strings.Cut(text, "=")
		if addresses[org] != "" || !skills.IsOrganisation(org) || !flags.IsWeb(address) {
			return nil, fmt.Errorf(
				"PARTNER_REGISTRIES: %q is not ORGANISATION=URL, with http:// or https:// and each organisation once",
				text,
			)
		}

		addresses[org] = address
	}

	return addresses, nil
}

// newSkills returns the skills of this role, and provides its tools with the one
// that loads them. oneUser reports that sessions have no users of their own.
func (b *backend) newSkills(registry *tools.Registry, oneUser bool) (*skills.Service, error) {
	partners, err := b.settings.partners()
	if err != nil {
		return nil, err
	}

	s, err := skills.New(skills.Config{
		Dir: filepath.Join(b.settings.DataDir, "agent_env", "skills"), Workspaces: b.workspace, OneUser: oneUser,
		Store:    skills.NewStore(b.DB.DB),
		Registry: skillregistry.NewRegistries(b.settings.RegistryURL, partners), Logger: b.logger,
		Room:   flags.CheckReserve(b.settings.DataDir),
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
