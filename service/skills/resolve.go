//go:build linux

package skills

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// catalog gives what a user has outside of sessions, first what goes before. An
// error comes with what could be found all the same.
func (s *Service) catalog(ctx context.Context, ownerID string) ([]*entry, error) {
	list, err := s.installedBy(ctx, ownerID)
	list = append(list, s.partner.entries(ctx, false)...)

	return append(list, s.builtin...), err
}

// installedBy gives what a user has installed from the registry.
func (s *Service) installedBy(ctx context.Context, ownerID string) ([]*entry, error) {
	if ownerID == "" {
		return nil, nil
	}

	records, err := s.installed.read(ownerID, func() ([]skill.Installed, error) { return s.Store.InstalledSkills(ctx, ownerID) })
	if err != nil {
		return nil, err
	}

	list := make([]*entry, len(records))
	for i, r := range records {
		list[i] = s.kept(ctx, registryID(r.Org, r.Name), skill.Registry, r.Name, r.Digest)
		list[i].Org, list[i].Version, list[i].InstalledAt = r.Org, r.Version, &r.InstalledAt
	}

	return list, nil
}

func registryID(org, name string) string { return "registry:" + org + ":" + name }

// kept gives an entry for a package of the store.
func (s *Service) kept(ctx context.Context, id string, source skill.Source, name, digest string) *entry {
	p, err := s.store.load(ctx, digest)
	if err != nil {
		return &entry{
			Skill: skill.Skill{ID: id, Name: name, Source: source, Digest: digest, Problem: problemOf(err)},
			pack:  func(context.Context) (skillpack.Pack, error) { return skillpack.Pack{}, err },
		}
	}

	return entryOf(source, id, p)
}

// ofSession gives the skills of a session: one of each name, the primary one
// first, then those that its solution names, then by name. An error comes with what could be found all the same.
func (s *Service) ofSession(
	ctx context.Context,
	session domain.Session,
	w *workspace.Workspace,
) (list []*entry, snapshot *skill.Snapshot, err error) {
	var faults [3]error
	if w != nil {
		list, faults[0] = s.scan(ctx, session.ID, w)
	}

	if wantsPrimary(session) {
		if snapshot, faults[1] = s.Snapshot(ctx, session); snapshot != nil {
			list = append(list, s.pinned(ctx, snapshot))
		}
	}

	others, err := s.catalog(ctx, session.OwnerID)
	faults[2] = err
	alone := len(list) == 0 && len(others) == len(s.builtin) // then they are of one name each, in order

	wanted := s.wanted(session)
	if list = append(list, others...); !alone || len(wanted) > 0 {
		list = inOrder(markWanted(firstOfName(list), wanted), snapshot)
	}

	for _, fault := range faults {
		if fault != nil {
			return list, snapshot, fault
		}
	}

	return list, snapshot, nil
}

// inOrder sorts the primary skill first, then those of the solution in its order, and
// the others by name.
func inOrder(list []*entry, snapshot *skill.Snapshot) []*entry {
	slices.SortStableFunc(list, func(a, b *entry) int {
		if first, second := isPrimary(snapshot, a), isPrimary(snapshot, b); first != second {
			if first {
				return -1
			}

			return 1
		}

		return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.Name, b.Name))
	})

	return list
}

// place sorts the skills of a solution before all others.
func place(e *entry) int {
	if e.rank == 0 {
		return math.MaxInt
	}

	return e.rank
}

func isPrimary(snapshot *skill.Snapshot, e *entry) bool {
	return snapshot != nil && snapshot.Name == e.Name
}

// pinned returns the primary skill as the session keeps it.
func (s *Service) pinned(ctx context.Context, snapshot *skill.Snapshot) *entry {
	source, _, _ := strings.Cut(snapshot.SkillID, ":")
	e := s.kept(ctx, snapshot.SkillID, skill.Source(source), snapshot.Name, snapshot.Digest)
	e.Org, e.Version, e.InstalledAt = snapshot.Org, snapshot.Version, &snapshot.TakenAt

	return e
}

// firstOfName leaves out what an earlier one of its name hides. One that cannot
// be used hides nothing that can.
func firstOfName(list []*entry) []*entry {
	usable := map[string]bool{}

	for _, e := range list {
		if e.Problem == "" {
			usable[e.Name] = true
		}
	}

	seen := map[string]bool{}

	return slices.DeleteFunc(slices.Clone(list), func(e *entry) bool {
		hidden := seen[e.Name] || e.Problem != "" && usable[e.Name]
		seen[e.Name] = seen[e.Name] || !hidden

		return hidden
	})
}
