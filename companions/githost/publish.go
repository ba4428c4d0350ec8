package githost

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"everloop/companions/edge"
	"everloop/internal/safezip"
	"everloop/internal/skillpack"
)

// refusal is the reason for rejecting a push, for the client.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refusef(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// publishMain checks the skill of a commit and publishes the version in its SKILL.md. When it
// returns nil, the registry has stored the version; a commit without SKILL.md publishes
// nothing.
func (p *push) publishMain(ctx context.Context, at place, commit string) error {
	list, err := p.service.store.git.files(ctx, at, commit, skillpack.MaxFiles)
	if errors.Is(err, errTooMany) {
		return refusef("main has more than %d files, so that it is not a skill", skillpack.MaxFiles)
	}

	if err != nil {
		return err
	}

	found := false
	for _, e := range list {
		found = found || strings.EqualFold(e.path, skillpack.DocumentName)
	}

	if !found {
		p.say("main has no %s: nothing is published", skillpack.DocumentName)
		return nil
	}

	if err := checkSkillFiles(list); err != nil {
		return err
	}

	archive, size, err := p.service.pack(ctx, at, list)
	if err != nil {
		return err
	}
	defer archive.Close()

	pack, err := skillpack.FromZIP(ctx, archive, size)
	if err != nil {
		return invalid(err)
	}

	switch {
	case pack.Name != p.repo.id.name:
		return refusef(
			"main is not a valid skill: the name in %s is %s, but the repository's is %s",
			skillpack.DocumentName,
			pack.Name,
			p.repo.id.name,
		)
	case pack.Version == "":
		return refusef("main is not a valid skill: the front matter of %s has no metadata.version", skillpack.DocumentName)
	}

	what := p.repo.id.String() + " " + pack.Version

	out, err := p.service.registry.publish(ctx, p.token, upload{
		id: p.repo.id, version: pack.Version, archive: archive, size: size, commit: commit, branch: "main",
	})
	if problem, ok := errors.AsType[*edge.Problem](err); ok {
		detail := problem.Detail
		if rule, named := strings.CutPrefix(detail, "path.version: "); named { // the field of the request to the registry
			detail = "the version in " + skillpack.DocumentName + " " + rule
		}

		return refusef("%s is not published: %s (%s)", what, detail, problem.Code)
	}

	if err != nil {
		return err
	}

	if out.again {
		p.say("%s is published already with this content", what)
	} else {
		p.say("published %s, %s", what, out.Digest)
		p.service.log.Info("skill version published", "repository", p.repo.id.String(), "version", pack.Version, "commit", commit)
	}

	for _, warning := range out.Warnings {
		p.say("warning: %s", warning)
	}

	return nil
}

// checkSkillFiles checks properties that the archive does not contain: types of entries, and
// sizes before a file is read.
func checkSkillFiles(list []entry) error {
	var bytes int64

	for _, e := range list {
		if !e.file() {
			return refusef("main is not a valid skill: %q is a link or a submodule", e.path)
		}

		if problem := safezip.CheckName(e.path); problem != "" {
			return refusef("main is not a valid skill: %q %s", e.path, problem)
		}

		if bytes += e.size; bytes > skillpack.MaxBytes {
			return refusef("main is not a valid skill: its files have more than %d bytes", skillpack.MaxBytes)
		}
	}

	return nil
}

// invalid returns the fault of a package as a message for the client.
func invalid(err error) error {
	if wrong, ok := errors.AsType[*skillpack.Error](err); ok {
		return refusef("main is not a valid skill: %s", wrong.Error())
	}

	if wrong, ok := errors.AsType[*safezip.Error](err); ok {
		return refusef("main is not a valid skill: as a package, %s", wrong.Text)
	}

	return err
}

// pack writes files into an unlinked archive file; closing it frees the space.
func (s *Service) pack(ctx context.Context, at place, list []entry) (archive *os.File, size int64, err error) {
	archive, err = os.CreateTemp(s.store.work(), "skill-*.zip")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			archive.Close()
		}
	}()

	if err := os.Remove(archive.Name()); err != nil {
		return nil, 0, err
	}

	out := zip.NewWriter(archive)

	err = s.store.git.contents(ctx, at, list, func(e entry, content io.Reader) error {
		header := &zip.FileHeader{Name: e.path, Method: zip.Deflate}
		header.SetMode(0o644)

		if e.executable() {
			header.SetMode(0o755)
		}

		member, err := out.CreateHeader(header)
		if err == nil {
			_, err = io.Copy(member, content)
		}

		return err
	})
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, 0, err
	}

	size, err = archive.Seek(0, io.SeekEnd)

	return archive, size, err
}
