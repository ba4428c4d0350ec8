//go:build linux

package skills

import (
	"context"
	"maps"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// Catalog lists what a user's sessions have without doing anything: what came
// with the service, what its operator added, and what the user installed.
func (s *Service) Catalog(ctx context.Context, user domain.User) ([]skill.Skill, error) {
	list, err := s.catalog(ctx, user.ID)
	if err != nil {
		return nil, err
	}

	return s.shown(ctx, byTheirNames(firstOfName(list))), nil
}

// Installed lists what was added to the skills that come with the service.
func (s *Service) Installed(ctx context.Context, user domain.User) ([]skill.Skill, error) {
	list, err := s.installedBy(ctx, user.ID)
	if err != nil {
		return nil, err
	}

	list = append(list, s.partner.entries(ctx, true)...)

	return s.shown(ctx, byTheirNames(firstOfName(list))), nil
}

func byTheirNames(list []*entry) []*entry {
	slices.SortStableFunc(list, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// shown returns entries as lists show them, with what the registry recommends.
func (s *Service) shown(ctx context.Context, list []*entry) []skill.Skill {
	out := make([]skill.Skill, len(list))
	for i, e := range list {
		out[i] = e.Skill
	}

	s.addReleases(ctx, out)

	return out
}

// OfSession lists the skills that a session has.
func (s *Service) OfSession(ctx context.Context, session domain.Session) ([]skill.Skill, error) {
	out, err := s.listSession(ctx, session)
	if err == nil {
		s.addReleases(ctx, out)
	}

	return out, err
}

// SetUp is OfSession for the detail of a session: usable skills only, and
// without a question to the registry.
func (s *Service) SetUp(ctx context.Context, session domain.Session) ([]skill.Skill, error) {
	out, err := s.listSession(ctx, session)
	return slices.DeleteFunc(out, func(skill skill.Skill) bool { return skill.Problem != "" }), err
}

func (s *Service) listSession(ctx context.Context, session domain.Session) ([]skill.Skill, error) {
	var w *workspace.Workspace

	if !s.Workspaces.Lacks(session.ID, SessionDir) {
		var err error
		if w, err = s.open(ctx, session); err != nil {
			return nil, err
		}
		defer w.Close()
	}

	list, _, err := s.ofSession(ctx, session, w)
	if err != nil {
		return nil, err
	}

	uploaded := func(e *entry) bool { return e.pack == nil && e.Problem == "" }

	var known map[string]skill.SessionSkill
	if slices.ContainsFunc(list, uploaded) {
		if known, err = s.known(ctx, session.ID); err != nil {
			return nil, err
		}
	}

	out := make([]skill.Skill, len(list))
	for i, e := range list {
		if uploaded(e) {
			s.lookInto(ctx, w, e, known)
		}

		out[i] = e.Skill
	}

	return out, ctx.Err()
}

// lookInto reads a package in a workspace whole and holds it against what is
// known of it.
func (s *Service) lookInto(ctx context.Context, w *workspace.Workspace, e *entry, known map[string]skill.SessionSkill) {
	p, err := s.inspect(ctx, w, e.Dir)
	if err != nil {
		e.Problem = problemOf(err)
		return
	}

	e.Digest = p.Digest
	if record, ok := known[e.Name]; ok {
		e.Source, e.Org, e.InstalledAt = record.Source, record.Org, &record.InstalledAt

		e.Changed = record.Digest != p.Digest
		if record.Source == skill.Registry {
			e.ID, e.Version = registryID(record.Org, record.Name), record.Version
		}
	}
}

func (s *Service) known(ctx context.Context, sessionID domain.SessionID) (map[string]skill.SessionSkill, error) {
	records, err := s.Store.SessionSkills(ctx, sessionID)

	known := make(map[string]skill.SessionSkill, len(records))
	for _, r := range records {
		known[r.Name] = r
	}

	return known, err
}

// Stats returns how a session has used its skills.
func (s *Service) Stats(ctx context.Context, session domain.Session) ([]skill.Stat, error) {
	return s.Store.SkillStats(ctx, session.ID)
}

// Detail returns one skill by the id that lists show, by org/name or by its name:
// one of the user's catalog, one in the workspace of a session that they may see,
// or one of the registry.
func (s *Service) Detail(ctx context.Context, user domain.User, id string) (skill.Detail, error) {
	if rest, ok := strings.CutPrefix(id, "uploaded:"); ok {
		return s.detailOfUploaded(ctx, user, rest)
	}

	list, err := s.catalog(ctx, user.ID)
	if err != nil {
		return skill.Detail{}, err
	}

	e := byID(list, id)
	if e == nil {
		return s.detailOfRegistry(ctx, id)
	}

	found := s.shown(ctx, []*entry{e})[0]
	if e.Problem != "" {
		return skill.Detail{Skill: found}, nil
	}

	p, err := e.pack(ctx)

	return detailOf(found, p), err
}

func detailOf(found skill.Skill, p skillpack.Pack) skill.Detail {
	return skill.Detail{
		Skill: found, Files: filesOf(p), FrontMatter: maps.Clone(p.FrontMatter), RequiredEnv: p.RequiredEnv,
		Permissions: p.Permissions, Readme: p.Body,
	}
}

func (s *Service) detailOfUploaded(ctx context.Context, user domain.User, rest string) (skill.Detail, error) {
	sessionID, name, _ := strings.Cut(rest, ":")

	session, _, err := s.Store.sessions.ReadSession(ctx, user, domain.SessionID(sessionID))
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return skill.Detail{}, notFound("uploaded:" + rest)
	}

	if err != nil {
		return skill.Detail{}, err
	}

	w, err := s.open(ctx, session)
	if err != nil {
		return skill.Detail{}, err
	}
	defer w.Close()

	list, err := s.scan(ctx, session.ID, w)
	if err != nil {
		return skill.Detail{}, err
	}

	e := byName(list, name)
	if e == nil {
		return skill.Detail{}, notFound("uploaded:" + rest)
	}

	known, err := s.known(ctx, session.ID)
	if err != nil {
		return skill.Detail{}, err
	}

	if e.Problem == "" {
		s.lookInto(ctx, w, e, known)
	}

	if e.Problem != "" {
		return skill.Detail{Skill: e.Skill}, nil
	}

	p, err := s.inspect(ctx, w, e.Dir)

	return detailOf(e.Skill, p), err
}
