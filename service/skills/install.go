//go:build linux

package skills

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/skillregistry"
	"everloop/internal/skillpack"
)

// Install fetches a skill from the registry, keeps it for all sessions of the
// session's owner, and puts it into this session's workspace.
func (s *Service) Install(ctx context.Context, session domain.Session, in skill.Install) (skill.InstallResult, error) {
	if err := checkInstall(in); err != nil {
		return skill.InstallResult{}, err
	}

	if s.Registry == nil {
		return skill.InstallResult{}, skillregistry.NotConfigured()
	}

	p, chosen, err := s.fetch(ctx, in)
	if err != nil {
		return skill.InstallResult{}, err
	}

	if err := s.store.keep(ctx, p); err != nil {
		return skill.InstallResult{}, err
	}

	w, err := s.open(ctx, session)
	if err != nil {
		return skill.InstallResult{}, err
	}
	defer w.Close()

	release, err := w.LockWrites(ctx)
	if err != nil {
		return skill.InstallResult{}, err
	}
	defer release()

	dir := path.Join(SessionDir, in.Name)
	if _, err := s.place(ctx, w, dir, p); err != nil {
		return skill.InstallResult{}, err
	}

	record := skill.SessionSkill{
		SessionID: session.ID, Name: in.Name, Source: skill.Registry, Org: in.Org, Version: chosen.Version, Digest: p.Digest,
	}
	if err := s.Store.PutSessionSkill(ctx, record); err != nil {
		return skill.InstallResult{}, err
	}

	replaced, err := s.Store.InstallSkill(ctx, skill.Installed{
		OwnerID: session.OwnerID, Org: in.Org, Name: in.Name, Version: chosen.Version, Digest: p.Digest,
	})
	if err != nil {
		return skill.InstallResult{}, err
	}

	s.installed.forget(session.OwnerID)

	return skill.InstallResult{
		Name: in.Name, Version: chosen.Version, Digest: p.Digest, Dir: dir, FileCount: len(p.Files), ReplacedVersion: replaced,
	}, nil
}

func checkInstall(in skill.Install) error {
	switch {
	case !orgForm.MatchString(in.Org):
		return domain.Invalidf("body.org", "is not the name of an organization")
	case skillpack.CheckName(in.Name) != "":
		return domain.Invalidf("body.name", "%s", skillpack.CheckName(in.Name))
	case in.Version != "" && !versionForm.MatchString(in.Version):
		return domain.Invalidf("body.version", "is not a semantic version, as 1.2.3")
	case in.Digest != "" && !digestForm.MatchString(withPrefix(in.Digest)):
		return domain.Invalidf("body.digest", "is not a SHA-256 in hex")
	}

	return nil
}

// withPrefix gives a digest in the one form, whether it came with the name of
// its algorithm or without.
func withPrefix(digest string) string {
	if digest == "" || strings.HasPrefix(digest, "sha256:") {
		return digest
	}

	return "sha256:" + strings.ToLower(digest)
}

// fetch downloads and checks the package that is asked for.
func (s *Service) fetch(ctx context.Context, in skill.Install) (skillpack.Pack, skillregistry.Version, error) {
	chosen, err := s.choose(ctx, in)
	if err != nil {
		return skillpack.Pack{}, chosen, err
	}

	archive, etag, err := s.Registry.Download(ctx, in.Org, in.Name, chosen.Version)
	if err != nil {
		return skillpack.Pack{}, chosen, err
	}

	p, err := skillpack.FromZIP(ctx, bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return p, chosen, refusal("body.name", err)
	}

	if err := named(p, in.Name, "body.name"); err != nil {
		return p, chosen, err
	}
	// The digest may be that of the package's content or of the archive.
	sum := sha256.Sum256(archive)

	names := []string{p.Digest, "sha256:" + hex.EncodeToString(sum[:])}
	for _, want := range []string{withPrefix(in.Digest), withPrefix(chosen.Digest), withPrefix(etag)} {
		if digestForm.MatchString(want) && !slices.Contains(names, want) {
			return p, chosen, domain.Newf(domain.Conflict, skill.CodeDigestMismatch,
				"the package of %s/%s %s is not the one that its digest names; nothing was installed", in.Org, in.Name, chosen.Version)
		}
	}

	return p, chosen, nil
}

// choose finds the version: the one that is asked for, else the released one.
func (s *Service) choose(ctx context.Context, in skill.Install) (skillregistry.Version, error) {
	versions, err := s.Registry.Versions(ctx, in.Org, in.Name)
	if err != nil {
		return skillregistry.Version{}, err
	}

	for _, v := range versions {
		if v.Version == in.Version || in.Version == "" && v.Released && !v.Yanked {
			return v, nil
		}
	}

	if in.Version == "" {
		return skillregistry.Version{}, domain.Newf(
			domain.NotFound,
			"skill_not_released",
			"no version of %s/%s is released; name one",
			in.Org,
			in.Name,
		)
	}

	return skillregistry.Version{}, domain.Newf(
		domain.NotFound,
		"skill_version_not_found",
		"%s/%s has no version %s",
		in.Org,
		in.Name,
		in.Version,
	)
}

// detailOfRegistry describes the released version of a skill that is not
// installed.
func (s *Service) detailOfRegistry(ctx context.Context, id string) (skill.Detail, error) {
	org, name, found := strings.Cut(strings.TrimPrefix(id, "registry:"), ":")
	if !found {
		org, name, found = strings.Cut(id, "/")
	}

	if !found || !orgForm.MatchString(org) || skillpack.CheckName(name) != "" || s.Registry == nil {
		return skill.Detail{}, notFound(id)
	}

	chosen, err := s.choose(ctx, skill.Install{Org: org, Name: name})
	if err != nil {
		return skill.Detail{}, err
	}

	v, err := s.Registry.Version(ctx, org, name, chosen.Version)
	if err != nil {
		return skill.Detail{}, err
	}

	detail := skill.Detail{
		Skill: skill.Skill{
			ID: registryID(org, name), Org: org, Name: name, Description: v.Description, Version: chosen.Version,
			Digest: chosen.Digest, Source: skill.Registry, ReleaseVersion: chosen.Version,
		},
		FrontMatter: v.FrontMatter,
	}
	for _, f := range v.Files {
		detail.Files = append(detail.Files, skill.File{Path: f.Path, Size: f.Size})
	}

	return detail, nil
}
