//go:build linux

package skills

import (
	"context"
	"maps"
	"slices"

	"everloop/domain"
	"everloop/domain/skill"
)

// Resync reads the packages of a session again and takes note of how they are
// now: what the agent or the user wrote, changed or deleted counts from here on.
func (s *Service) Resync(ctx context.Context, session domain.Session) (skill.Resync, error) {
	s.partner.entries(ctx, true)
	s.installed.forget(session.OwnerID)

	w, err := s.open(ctx, session)
	if err != nil {
		return skill.Resync{}, err
	}
	defer w.Close()

	if copies, err := w.List(ctx, copiesDir, maxSessionEntries); err == nil {
		s.repair(ctx, w, copiesDir, copies)
	}

	found, err := s.scan(ctx, session.ID, w)
	if err != nil {
		return skill.Resync{}, err
	}

	known, err := s.known(ctx, session.ID)
	if err != nil {
		return skill.Resync{}, err
	}

	var out skill.Resync

	for _, e := range found {
		record, recorded := known[e.Name]
		delete(known, e.Name)

		if e.Problem == "" {
			s.lookInto(ctx, w, e, map[string]skill.SessionSkill{})
		}

		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case e.Problem != "":
			out.Failed = append(out.Failed, skill.Failure{Name: e.Name, Code: skill.CodeInvalid, Message: e.Problem})
			continue
		case !recorded:
			record = skill.SessionSkill{SessionID: session.ID, Name: e.Name, Source: skill.Uploaded}
			out.Added = append(out.Added, e.Name)
		case record.Digest != e.Digest:
			out.Updated = append(out.Updated, e.Name)
		default:
			continue
		}

		record.Digest = e.Digest
		if record.Source == skill.Uploaded || e.Version != "" {
			record.Version = e.Version
		}

		if err := s.Store.PutSessionSkill(ctx, record); err != nil {
			return out, err
		}
	}

	if out.Removed = slices.Sorted(maps.Keys(known)); len(out.Removed) > 0 {
		err = s.Store.DropSessionSkills(ctx, session.ID, out.Removed)
	}

	return out, err
}
