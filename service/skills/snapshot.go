//go:build linux

package skills

import (
	"context"
	"path"

	"everloop/domain"
	"everloop/domain/skill"
)

func wantsPrimary(session domain.Session) bool {
	return session.ID != "" && session.PrimarySkillID != nil && *session.PrimarySkillID != ""
}

// Snapshot gives the version of its primary skill that a session keeps to. It is
// taken when it is first asked for, at the session's creation; nil when the
// session has no primary skill, or one that is not known.
func (s *Service) Snapshot(ctx context.Context, session domain.Session) (*skill.Snapshot, error) {
	if !wantsPrimary(session) {
		return nil, nil
	}

	snapshot, err := s.Store.SkillSnapshot(ctx, session.ID)
	if err != nil || snapshot != nil {
		return snapshot, err
	}

	list, err := s.catalog(ctx, session.OwnerID)

	e := byID(list, *session.PrimarySkillID)
	if e == nil || e.Problem != "" {
		return nil, err
	}

	p, err := e.pack(ctx)
	if err != nil {
		return nil, err
	}

	if err := s.store.keep(ctx, p); err != nil {
		return nil, err
	}

	w, err := s.open(ctx, session)
	if err != nil {
		return nil, err
	}
	defer w.Close()

	if _, err := s.copyOf(ctx, w, p); err != nil {
		return nil, err
	}

	return s.Store.TakeSkillSnapshot(ctx, session.ID, skill.Snapshot{
		SkillID: e.ID, Org: e.Org, Name: e.Name, Version: e.Version, Digest: p.Digest,
		Path: path.Join(copiesDir, e.Name), FilesCount: len(p.Files),
	})
}

// byID finds a skill by its id, by org/name, or by its name alone.
func byID(list []*entry, id string) *entry {
	for _, e := range list {
		if e.ID == id || e.Org != "" && e.Org+"/"+e.Name == id {
			return e
		}
	}

	return byName(firstOfName(list), id)
}
