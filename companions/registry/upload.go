package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"everloop/internal/limit"

	"everloop/companions/edge"
	"everloop/internal/safezip"
	"everloop/internal/skillpack"
)

// Bounds of the form of an upload, in addition to the archive.
const (
	formOverhead = 1 << 20
	maxParts     = 8
	maxField     = 255
)

// form is the content of an upload.
type form struct {
	archive *os.File // unlinked: closing it frees the space
	size    int64
	commit  string
	branch  string
}

// file is one file of a package in the list of a version.
type file struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// upload stores a version of a skill.
func (s *Service) upload(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	version, err := versionOf(r)
	if err != nil {
		return err
	}

	caller, err := s.writer(r)
	if err != nil {
		return err
	}

	if _, err := mayPublish(r.Context(), s.db, id.org, caller); err != nil {
		return err
	}

	if s.cfg.Room != nil {
		if err := s.cfg.Room(); err != nil {
			s.log.Warn("upload refused: the disk is full", "error", err)
			return edge.Refuse(http.StatusServiceUnavailable, "disk_full", "the disk of the service is full: nothing was stored")
		}
	}

	leave, err := s.uploads.Try(
		limit.Bound[string]{Max: maxConcurrentUploads}, limit.Bound[string]{Key: "caller " + caller.ID, Max: ownUploads},
	)
	if err != nil {
		return edge.Refuse(http.StatusTooManyRequests, "rate_limited", "too many uploads at once: try again")
	}
	defer leave()

	in, err := readForm(w, r)
	if err != nil {
		return err
	}
	defer in.archive.Close()

	pack, files, err := inspect(r.Context(), in, id.name, version)
	if err != nil {
		return err
	}

	stored, added, err := s.publish(r.Context(), publication{
		id: id, version: version, pack: pack, files: files, form: in, caller: caller,
		most: s.cfg.OrganizationBytes,
	})
	if err != nil {
		return err
	}

	status := http.StatusOK
	if added {
		status = http.StatusCreated

		s.log.Info("skill version stored", "org", id.org, "skill", id.name, "version", version, "digest", stored.Digest)
	}

	edge.WriteJSON(w, status, stored)

	return nil
}

// readForm streams the archive of a request to a file, up to its limit.
func readForm(w http.ResponseWriter, r *http.Request) (in form, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, safezip.SkillPackage.Archive+formOverhead)

	parts, err := r.MultipartReader()
	if err != nil {
		return in, edge.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"send multipart/form-data with the archive as the part file")
	}

	defer func() {
		if err != nil && in.archive != nil {
			in.archive.Close()
		}
	}()

	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return in, unread(err)
		}

		if n == maxParts {
			return in, edge.Invalid("body", "has more than %d parts", maxParts)
		}

		if err := in.take(part); err != nil {
			return in, err
		}
	}

	if in.archive == nil {
		return in, edge.Invalid("body.file", "is missing: send the archive as the part file")
	}

	return in, nil
}

func (in *form) take(part *multipart.Part) (err error) {
	switch name := part.FormName(); {
	case name == "file" && in.archive != nil:
		return edge.Invalid("body.file", "is duplicated")
	case name == "file":
		return in.takeArchive(part)
	case name == "git_commit":
		in.commit, err = field(part)
	case name == "git_branch":
		in.branch, err = field(part)
	default: // unknown fields are ignored
		if _, dropped := io.Copy(io.Discard, part); dropped != nil {
			err = unread(dropped)
		}
	}

	return err
}

func (in *form) takeArchive(part io.Reader) error {
	archive, err := os.CreateTemp("", "everloop-skill-*.zip")
	if err != nil {
		return err
	}

	in.archive = archive
	if err := os.Remove(archive.Name()); err != nil {
		return err
	}

	limit := safezip.SkillPackage.Archive
	if in.size, err = io.Copy(archive, io.LimitReader(part, limit+1)); err != nil {
		return unread(err)
	}

	if in.size > limit {
		return edge.Refuse(http.StatusRequestEntityTooLarge, "invalid_skill_archive", "the archive is larger than %d bytes", limit)
	}

	return nil
}

func field(part io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(part, maxField+1))

	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", unread(err)
	case len(data) > maxField || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }):
		return "", edge.Invalid("body", "has a text that is longer than %d bytes, or no text", maxField)
	}

	return text, nil
}

// unread returns why a body could not be read.
func unread(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return edge.Refuse(http.StatusRequestEntityTooLarge, "invalid_skill_archive", "the request is larger than an archive may be")
	}

	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path // a disk error of the service
	}

	return edge.Refuse(http.StatusBadRequest, "malformed_request", "the body could not be read as multipart/form-data")
}

// inspect checks the package against every limit and against the name and version of the
// request.
func inspect(ctx context.Context, in form, name, version string) (skillpack.Pack, []file, error) {
	pack, err := skillpack.FromZIP(ctx, in.archive, in.size)
	if err != nil {
		return pack, nil, refusal(err)
	}

	if pack.Name != name {
		return pack, nil, invalidSkill("the name in the front matter is " + pack.Name + ", not " + name)
	}

	switch pack.Version {
	case version:
	case "":
		pack.Warnings = append(pack.Warnings, "the front matter has no metadata.version")
	default:
		return pack, nil, invalidSkill("the version in the front matter is not " + version)
	}

	files := make([]file, len(pack.Files))
	for i, f := range pack.Files {
		sum, err := hash(ctx, f)
		if err != nil {
			return pack, nil, refusal(err)
		}

		files[i] = file{Path: f.Path, Size: f.Size, SHA256: sum}
	}

	return pack, files, nil
}

func hash(ctx context.Context, f skillpack.File) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}

	content, err := f.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()

	h := sha256.New()
	if _, err := io.Copy(h, content); err != nil {
		return "", err
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}

func invalidSkill(problems ...string) error {
	p := edge.Refuse(http.StatusUnprocessableEntity, "invalid_skill", "the package is not a valid skill: %s", strings.Join(problems, "; "))
	for _, problem := range problems {
		p.Errors = append(p.Errors, edge.Field{Location: "body.file", Message: problem})
	}

	return p
}

// refusal returns the fault of a package as a fault of the request.
func refusal(err error) error {
	if invalid, ok := errors.AsType[*skillpack.Error](err); ok {
		return invalidSkill(invalid.Problems...)
	}

	if unsafe, ok := errors.AsType[*safezip.Error](err); ok {
		status := http.StatusUnprocessableEntity
		if unsafe.Reason == safezip.TooLarge || unsafe.Reason == safezip.Expands || unsafe.Reason == safezip.TooManyFiles {
			status = http.StatusRequestEntityTooLarge
		}

		return edge.Refuse(status, "invalid_skill_archive", "the package cannot be unpacked: %s", unsafe.Text)
	}

	return err
}
