//go:build linux

package skills

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
)

// Search finds skills about something, in the user's catalog and in the
// registry; the best first. A registry that does not answer is left out.
func (s *Service) Search(ctx context.Context, user domain.User, q string, limit int) ([]skill.Hit, error) {
	list, err := s.catalog(ctx, user.ID)
	if err != nil {
		return nil, err
	}

	words := strings.Fields(strings.ToLower(q))
	hits := []skill.Hit{}
	seen := map[string]bool{}

	for _, e := range firstOfName(list) {
		if fit := score(words, e.Name, e.Description); fit > 0 && e.Problem == "" {
			hits = append(
				hits,
				skill.Hit{ID: e.ID, Org: e.Org, Name: e.Name, Description: e.Description, Version: e.Version, Score: fit},
			)
			seen[e.ID] = true
		}
	}

	if s.Registry != nil {
		found, err := s.Registry.Search(ctx, q, limit)
		if err != nil {
			s.Logger.Warn("failed to search a skill registry", "error", err)
		}

		for _, r := range found {
			hit := skill.Hit{
				ID: registryID(r.Org, r.Name), Org: r.Org, Name: r.Name, Description: r.Description,
				Version: cmp.Or(r.ReleasedVersion, r.Version), Downloads: r.Downloads, Score: score(words, r.Name, r.Description),
			}
			if !seen[hit.ID] {
				hit.Score = max(hit.Score, 0.1) // the registry knows why it found it
				hits = append(hits, hit)
			}
		}
	}

	slices.SortStableFunc(hits, func(a, b skill.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Name, b.Name))
	})

	return hits[:min(len(hits), limit)], nil
}

// score returns how well a skill fits the words, from 0 to 1: the mean over the
// words, of which a name counts more than a description.
func score(words []string, name, description string) float64 {
	name, description = strings.ToLower(name), strings.ToLower(description)
	total := 0.0

	for _, word := range words {
		switch {
		case name == word:
			total += 1
		case slices.Contains(strings.Split(name, "-"), word):
			total += 0.9
		case strings.Contains(name, word):
			total += 0.7
		case strings.Contains(description, word):
			total += 0.4
		}
	}

	return total / float64(max(len(words), 1))
}
