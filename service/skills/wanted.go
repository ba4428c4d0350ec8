//go:build linux

package skills

import (
	"context"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
)

// notInstalled is the problem of a skill that a solution names and that is not there.
const notInstalled = "the session's solution or agent names this skill, and it is not there: install it from the registry, or have the " +
	"operator add it to agent_env/skills"

// wanted lists the skills that the solution and the agent of a session name, by the id of a list,
// org/name, or name.
func (s *Service) wanted(session domain.Session) []string {
	if s.Wanted == nil || session.SolutionID == nil && len(session.Setup.Skills) == 0 {
		return nil
	}

	return s.Wanted(session)
}

// markWanted gives the list with the skills that a solution names marked, and those
// that are not there added with their problem. Entries are shared by sessions: what
// is marked is a copy.
func markWanted(list []*entry, wanted []string) []*entry {
	list = slices.Clone(list)
	for i, id := range wanted {
		found := byID(list, id)
		if found == nil {
			list = append(list, missing(id, i+1))
			continue
		}

		marked := *found
		marked.rank = i + 1
		list[slices.Index(list, found)] = &marked
	}

	return list
}

// missing stands for a skill that is not there.
func missing(id string, rank int) *entry {
	source, _, _ := strings.Cut(id, ":")
	switch skill.Source(source) {
	case skill.Builtin, skill.Registry:
	default:
		source = string(skill.Partner)
	}

	name := id[strings.LastIndexAny(id, ":/")+1:]

	return &entry{Skill: skill.Skill{ID: id, Name: name, Source: skill.Source(source), Problem: notInstalled}, rank: rank}
}

// Missing lists those of a solution's skills that no user has without installing
// them.
func (s *Service) Missing(ctx context.Context, wanted []string) ([]string, error) {
	list, err := s.catalog(ctx, "")
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(slices.Clone(wanted), func(id string) bool { return byID(list, id) != nil }), nil
}
