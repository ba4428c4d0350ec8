//go:build linux

package skills

import (
	"context"
	"errors"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// Offer gives the skills that the model of a session can load. A session without
// an id is any session. An error comes with what could be found all the same.
func (s *Service) Offer(ctx context.Context, session domain.Session) ([]skill.Offer, error) {
	var (
		w       *workspace.Workspace
		opening error
	)
	if session.ID != "" {
		if w, opening = s.open(ctx, session); opening == nil {
			defer w.Close()
		}
	}

	list, snapshot, err := s.ofSession(ctx, session, w)

	offers := make([]skill.Offer, 0, len(list))
	for _, e := range list {
		if e.Problem == "" {
			offers = append(
				offers,
				skill.Offer{Name: e.Name, Description: e.Description, Primary: isPrimary(snapshot, e), OfSolution: e.rank > 0},
			)
		}
	}

	return offers, errors.Join(opening, err)
}

// Offers reports whether Offer gives anything: it does when something comes with the
// service, which nothing that cannot be used hides.
func (s *Service) Offers(ctx context.Context, session domain.Session) (bool, error) {
	if len(s.builtin) > 0 {
		return true, nil
	}

	offers, err := s.Offer(ctx, session)

	return len(offers) > 0, err
}

// Load returns a skill's text, and places its package in the workspace. It notes
// which version the session has read.
func (s *Service) Load(ctx context.Context, session domain.Session, name string) (skill.Loaded, error) {
	w, err := s.open(ctx, session)
	if err != nil {
		return skill.Loaded{}, err
	}
	defer w.Close()

	list, _, err := s.ofSession(ctx, session, w)

	found := byName(list, name)
	switch {
	case found == nil && err != nil:
		return skill.Loaded{}, err
	case found == nil:
		return skill.Loaded{}, notFound(name)
	case found.Problem != "":
		return skill.Loaded{}, domain.Newf(
			domain.Invalid,
			skill.CodeInvalid,
			"skill %s cannot be used: %s",
			name,
			found.Problem,
		)
	}

	p, dir, err := s.packOf(ctx, w, found)
	if err != nil {
		return skill.Loaded{}, refusal("name", err)
	}

	changed, err := s.note(ctx, session.ID, found, p.Digest)
	if err != nil {
		return skill.Loaded{}, err
	}

	return skill.Loaded{
		Name: name, Version: found.Version, Dir: dir, Digest: p.Digest, Body: p.Body, Files: filesOf(p),
		RequiredEnv: p.RequiredEnv, Changed: changed,
	}, nil
}

// packOf reads a skill's package, which afterwards lies in the workspace.
func (s *Service) packOf(ctx context.Context, w *workspace.Workspace, e *entry) (p skillpack.Pack, dir string, err error) {
	if e.pack == nil {
		p, err = s.inspect(ctx, w, e.Dir)
		return p, e.Dir, err
	}

	if p, err = e.pack(ctx); err != nil {
		return p, "", err
	}

	dir, err = s.copyOf(ctx, w, p)

	return p, dir, err
}

// note records what the session has read, and reports whether it is another version
// than it had read before, or than was installed.
func (s *Service) note(ctx context.Context, sessionID domain.SessionID, e *entry, digest string) (changed bool, err error) {
	before, err := s.Store.LoadedSkill(ctx, sessionID, e.Name, digest)
	if err != nil || before != "" {
		return before != digest, err
	}

	if e.pack != nil {
		return false, nil
	}

	known, err := s.Store.SessionSkills(ctx, sessionID)
	if err != nil {
		return false, err
	}

	for _, record := range known {
		if record.Name == e.Name {
			return record.Digest != digest, nil
		}
	}
	// Written by the agent itself, and noticed now.
	return false, s.Store.PutSessionSkill(ctx, skill.SessionSkill{
		SessionID: sessionID, Name: e.Name, Source: skill.Uploaded, Version: e.Version, Digest: digest,
	})
}

func byName(list []*entry, name string) *entry {
	for _, e := range list {
		if e.Name == name {
			return e
		}
	}

	return nil
}

func filesOf(p skillpack.Pack) []skill.File {
	files := make([]skill.File, len(p.Files))
	for i, f := range p.Files {
		files[i] = skill.File{Path: f.Path, Size: f.Size}
	}

	return files
}
