package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/internal/skillpack"
)

// publication is a checked upload.
type publication struct {
	id      skillID
	version string
	pack    skillpack.Pack
	files   []file
	form    form
	caller  credentials.Caller
	most    int64 // bytes of all packages of the organisation
}

// uploaded is the response to an upload.
type uploaded struct {
	Org       string    `json:"org"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	FileCount int       `json:"file_count"`
	CreatedAt time.Time `json:"created_at"`
	Warnings  []string  `json:"warnings"`
}

// Bounds of one organisation's packages.
const (
	maxVersions = 1000 // of a skill
	maxSkills   = 2000 // of an organisation
)

// publish stores a version: first a row that announces the object, then the object, then in one
// transaction the version in place of that row. A crash leaves at most an announced object,
// which is removed later. An existing version with this digest is returned.
func (s *Service) publish(ctx context.Context, p publication) (stored uploaded, added bool, err error) {
	stored, found, err := p.existing(ctx, s.db)
	if found || err != nil {
		return stored, false, err
	}

	key := uuid.NewString()
	if _, err := s.db.Exec(ctx, `INSERT INTO registry.uploads (package_key) VALUES ($1)`, key); err != nil {
		return stored, false, err
	}

	defer func() {
		if !added {
			s.abandon(ctx, key)
		}
	}()

	if _, err := p.form.archive.Seek(0, io.SeekStart); err != nil {
		return stored, false, err
	}

	if err := s.packages.put(ctx, key, p.form.archive, p.form.size); err != nil {
		return stored, false, err
	}

	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		stored, added, err = p.insert(ctx, tx, key)
		return err
	})
	// If the result of a commit was lost, the next upload determines it: abandon removes only
	// objects that are still announced.
	return stored, added && err == nil, err
}

// existing returns the existing version; another digest is a conflict.
func (p publication) existing(ctx context.Context, q querier) (stored uploaded, found bool, err error) {
	stored = uploaded{Org: p.id.org, Name: p.id.name, Version: p.version}

	err = q.QueryRow(ctx, `
		SELECT digest, size, file_count, created_at, warnings FROM registry.versions WHERE org = $1 AND name = $2 AND version = $3`,
		p.id.org, p.id.name, p.version).Scan(&stored.Digest, &stored.Size, &stored.FileCount, &stored.CreatedAt, &stored.Warnings)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return stored, false, nil
	case err != nil:
		return stored, false, err
	case stored.Digest != p.pack.Digest:
		return stored, false, edge.Refuse(http.StatusConflict, "version_exists",
			"%s/%s %s exists with other content; a version never changes: publish another one", p.id.org, p.id.name, p.version)
	}

	return stored, true, nil
}

func (p publication) insert(ctx context.Context, tx pgx.Tx, key string) (stored uploaded, added bool, err error) {
	if err := claim(ctx, tx, p.id.org, p.caller); err != nil {
		return stored, false, err
	}
	// The row of the skill is locked while its versions are added.
	if _, err := tx.Exec(ctx, `INSERT INTO registry.skills (org, name) VALUES ($1, $2)
		ON CONFLICT (org, name) DO UPDATE SET updated_at = now()`, p.id.org, p.id.name); err != nil {
		return stored, false, err
	}

	if stored, found, err := p.existing(ctx, tx); found || err != nil {
		return stored, false, err
	}

	var versions, skills int
	if err := tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM registry.versions WHERE org = $1 AND name = $2),
			(SELECT count(*) FROM registry.skills WHERE org = $1)`,
		p.id.org, p.id.name).Scan(&versions, &skills); err != nil {
		return stored, false, err
	}

	if versions >= maxVersions {
		return stored, false, edge.Refuse(http.StatusConflict, "too_many_versions", "a skill has at most %d versions", maxVersions)
	}

	if skills > maxSkills {
		return stored, false, edge.Refuse(http.StatusConflict, "too_many_skills", "an organisation has at most %d skills", maxSkills)
	}

	if err := p.fits(ctx, tx); err != nil {
		return stored, false, err
	}

	announced, err := tx.Exec(ctx, `DELETE FROM registry.uploads WHERE package_key = $1 AND NOT expired`, key)
	if err != nil {
		return stored, false, err
	}

	if announced.RowsAffected() == 0 {
		return stored, false, edge.Refuse(http.StatusServiceUnavailable, "upload_expired", "the upload took too long: try again")
	}

	return p.row(ctx, tx, key)
}

// fits rejects a package that exceeds the quota of its organisation. The row of the
// organisation is locked, so that concurrent uploads of several skills count together.
func (p publication) fits(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT FROM registry.organizations WHERE name = $1 FOR NO KEY UPDATE`, p.id.org); err != nil {
		return err
	}

	var used int64
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(size), 0)::bigint FROM registry.versions WHERE org = $1`, p.id.org).
		Scan(&used); err != nil {
		return err
	}

	if used+p.form.size > p.most && !p.caller.Administers() {
		return edge.Refuse(http.StatusConflict, "organization_full",
			"the packages of an organisation have at most %d bytes, and those of %s have %d", p.most, p.id.org, used)
	}

	return nil
}

func (p publication) row(ctx context.Context, tx pgx.Tx, key string) (stored uploaded, added bool, err error) {
	frontMatter, err := json.Marshal(p.pack.FrontMatter)
	if err != nil {
		return stored, false, err
	}

	files, err := json.Marshal(p.files)
	if err != nil {
		return stored, false, err
	}

	stored = uploaded{
		Org: p.id.org, Name: p.id.name, Version: p.version, Digest: p.pack.Digest, Size: p.form.size,
		FileCount: len(p.files), Warnings: append([]string{}, p.pack.Warnings...),
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO registry.versions (org, name, version, digest, size, description, frontmatter, files, file_count, warnings,
			git_commit, git_branch, package_key, created_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, nullif($11, ''), nullif($12, ''), $13, $14) RETURNING created_at`,
		p.id.org, p.id.name, p.version, stored.Digest, stored.Size, p.pack.Description, frontMatter, files, stored.FileCount,
		stored.Warnings, p.form.commit, p.form.branch, key, p.caller.ID).Scan(&stored.CreatedAt)

	return stored, err == nil, err
}

// abandonTime bounds the clean-up of an upload after its request has ended.
const abandonTime = 10 * time.Second

// abandon removes the object of an upload that stored no version. The periodic job removes the
// rest.
func (s *Service) abandon(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()

	marked, err := s.db.Exec(ctx, `UPDATE registry.uploads SET expired = true WHERE package_key = $1`, key)
	if err == nil && marked.RowsAffected() == 1 {
		err = s.removeUpload(ctx, key)
	}

	if err != nil {
		s.log.Warn("failed to remove the package of an upload; the periodic job retries", "error", err)
	}
}

func (s *Service) removeUpload(ctx context.Context, key string) error {
	if err := s.packages.remove(ctx, key); err != nil {
		return err
	}

	_, err := s.db.Exec(ctx, `DELETE FROM registry.uploads WHERE package_key = $1`, key)

	return err
}

// cleanRegularly removes leftovers of interrupted uploads, at the start and periodically.
func (s *Service) cleanRegularly(ctx context.Context) {
	tick := time.NewTicker(cleanEvery)
	defer tick.Stop()

	for {
		if err := s.Clean(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("failed to remove the packages of cut-off uploads; retrying later", "error", err)
		}

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Clean removes the objects of interrupted uploads.
func (s *Service) Clean(ctx context.Context) error {
	const most = 1000

	rows, err := s.db.Query(ctx, `
		UPDATE registry.uploads SET expired = true WHERE package_key IN
			(SELECT package_key FROM registry.uploads WHERE expired OR created_at < now() - $1::interval ORDER BY created_at LIMIT $2)
		RETURNING package_key`, s.cfg.UploadAge, most)
	if err != nil {
		return err
	}

	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, key := range keys {
		if err := s.removeUpload(ctx, key); err != nil {
			return err
		}
	}

	if len(keys) > 0 {
		s.log.Info("packages of cut-off uploads removed", "count", len(keys))
	}

	return nil
}
