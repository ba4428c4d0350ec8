//go:build linux

package skills

import (
	"context"
	"fmt"
	"path"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/internal/safezip"
	"everloop/internal/skillpack"
)

// Upload puts a package into a session's workspace, in place of one of that name.
// Nothing is changed when it is refused.
func (s *Service) Upload(
	ctx context.Context,
	session domain.Session,
	name string,
	files []skill.NewFile,
) (skill.Upload, error) {
	p, err := s.uploaded(ctx, name, files)
	if err != nil {
		return skill.Upload{}, err
	}

	w, err := s.open(ctx, session)
	if err != nil {
		return skill.Upload{}, err
	}
	defer w.Close()

	release, err := w.LockWrites(ctx)
	if err != nil {
		return skill.Upload{}, err
	}
	defer release()

	dir := path.Join(SessionDir, name)

	replaced, err := s.place(ctx, w, dir, p)
	if err != nil {
		return skill.Upload{}, err
	}

	err = s.Store.PutSessionSkill(ctx, skill.SessionSkill{
		SessionID: session.ID, Name: name, Source: skill.Uploaded, Version: p.Version, Digest: p.Digest,
	})

	return skill.Upload{Name: name, Dir: dir, FileCount: len(p.Files), Overwritten: replaced}, err
}

// uploaded checks what a client sent.
func (s *Service) uploaded(ctx context.Context, name string, given []skill.NewFile) (skillpack.Pack, error) {
	if problem := skillpack.CheckName(name); problem != "" {
		return skillpack.Pack{}, domain.Invalidf("body.name", "%s", problem)
	}

	wrong := domain.Newf(domain.Invalid, skill.CodeInvalid, "the package has files that cannot be")

	files := make([]skillpack.File, len(given))
	for i, f := range given {
		if problem := safezip.CheckName(f.Path); problem != "" {
			wrong.Fields = append(wrong.Fields, domain.Field{Location: fmt.Sprintf("body.files[%d].path", i), Message: problem})
		}

		files[i] = skillpack.InMemory(f.Path, f.Content)
	}

	if len(wrong.Fields) > 0 {
		return skillpack.Pack{}, wrong
	}

	if unwrapped, dir := skillpack.Unwrap(files); dir == name {
		files = unwrapped
	}

	p, err := skillpack.Inspect(ctx, files)
	if err != nil {
		return p, refusal("body.files", err)
	}

	return p, named(p, name, "body.name")
}

// named holds the name in the front matter against the one that was asked for.
func named(p skillpack.Pack, name, where string) error {
	if p.Name == name {
		return nil
	}

	const message = "is not the name in the front matter of SKILL.md"

	e := domain.Newf(domain.Invalid, skill.CodeInvalid, "%s %s", where, message)
	e.Fields = []domain.Field{{Location: where, Message: message}}

	return e
}
