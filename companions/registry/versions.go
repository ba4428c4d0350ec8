package registry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

// versionView is a version in a list.
type versionView struct {
	Version   string    `json:"version"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	FileCount int       `json:"file_count"`
	CreatedAt time.Time `json:"created_at"`
	Released  bool      `json:"released"`
	Yanked    bool      `json:"yanked"`
	Git       *gitView  `json:"git,omitempty"`
}

// gitView is the origin of a version in git.
type gitView struct {
	Commit string `json:"commit"`
	Branch string `json:"branch"`
}

// wholeVersion is one version with all fields.
type wholeVersion struct {
	versionView
	Description string          `json:"description"`
	FrontMatter json.RawMessage `json:"frontmatter"`
	Files       json.RawMessage `json:"files"`
	Warnings    []string        `json:"warnings"`
}

const versionColumns = `v.version, v.digest, v.size, v.file_count, v.created_at, coalesce(s.released_version = v.version, false),
	v.yanked_at IS NOT NULL, v.git_commit, v.git_branch`

func (v *versionView) scan(row pgx.CollectableRow, more ...any) error {
	var commit, branch *string

	err := row.Scan(append([]any{
		&v.Version, &v.Digest, &v.Size, &v.FileCount, &v.CreatedAt, &v.Released, &v.Yanked, &commit, &branch,
	}, more...)...)
	if commit != nil {
		v.Git = &gitView{Commit: *commit}
		if branch != nil {
			v.Git.Branch = *branch
		}
	}

	return err
}

// versions lists the versions of a skill, highest first.
func (s *Service) versions(ctx context.Context, id skillID) ([]versionView, error) {
	rows, err := s.db.Query(ctx, `
		SELECT `+versionColumns+` FROM registry.versions v JOIN registry.skills s USING (org, name)
		WHERE v.org = $1 AND v.name = $2`, id.org, id.name)
	if err != nil {
		return nil, err
	}

	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v versionView, err error) { return v, v.scan(row) })
	if err != nil {
		return nil, err
	}

	if len(list) == 0 {
		return nil, noSkill(id)
	}

	order := map[string]*semver.Version{}
	for _, v := range list {
		order[v.Version] = semver.MustParse(v.Version) // every stored one was parsed
	}

	slices.SortFunc(list, func(a, b versionView) int { return order[b.Version].Compare(order[a.Version]) })

	return list, nil
}

func (s *Service) listVersions(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	list, err := s.versions(r.Context(), id)
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, items[versionView]{list})

	return nil
}

// items is a list on a single page.
type items[T any] struct {
	Items []T `json:"items"`
}

func (s *Service) getVersion(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	version, err := versionOf(r)
	if err != nil {
		return err
	}

	found, err := s.version(r.Context(), id, version)
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, found)

	return nil
}

func (s *Service) version(ctx context.Context, id skillID, version string) (wholeVersion, error) {
	rows, err := s.db.Query(ctx, `
		SELECT `+versionColumns+`, v.description, v.frontmatter, v.files, v.warnings
		FROM registry.versions v JOIN registry.skills s USING (org, name)
		WHERE v.org = $1 AND v.name = $2 AND v.version = $3`, id.org, id.name, version)
	if err != nil {
		return wholeVersion{}, err
	}

	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (v wholeVersion, err error) {
		return v, v.scan(row, &v.Description, &v.FrontMatter, &v.Files, &v.Warnings)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = noVersion(id, version)
	}

	return found, err
}

// noRelease returns why a skill has no released version.
func (s *Service) noRelease(ctx context.Context, id skillID) error {
	var known bool

	err := s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM registry.skills WHERE org = $1 AND name = $2)`, id.org, id.name).Scan(&known)
	switch {
	case err != nil:
		return err
	case !known:
		return noSkill(id)
	}

	return edge.Refuse(http.StatusNotFound, "skill_not_released", "there is no released version of %s/%s: name one", id.org, id.name)
}

// download serves the package of a version, by default of the released one.
func (s *Service) download(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	version := r.URL.Query().Get("version")
	if version != "" {
		if _, err := checkVersion("query.version", version); err != nil {
			return err
		}
	}

	var (
		key, digest, found string
		created            time.Time
	)

	err = s.db.QueryRow(r.Context(), `
		SELECT v.package_key, v.digest, v.version, v.created_at FROM registry.versions v JOIN registry.skills s USING (org, name)
		WHERE v.org = $1 AND v.name = $2 AND v.version = coalesce(nullif($3, ''), s.released_version)`,
		id.org, id.name, version).Scan(&key, &digest, &found, &created)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && version != "":
		return noVersion(id, version)
	case errors.Is(err, pgx.ErrNoRows):
		return s.noRelease(r.Context(), id)
	case err != nil:
		return err
	}

	object, err := s.packages.open(r.Context(), key)
	if err != nil {
		return err
	}
	defer object.Close()

	if r.Method == http.MethodGet && r.Header.Get("If-None-Match") == "" && r.Header.Get("Range") == "" {
		if _, err := s.db.Exec(r.Context(), `UPDATE registry.skills SET downloads = downloads + 1 WHERE org = $1 AND name = $2`,
			id.org, id.name); err != nil {
			s.log.Warn("failed to count a download", "error", err)
		}
	}

	header := w.Header()
	header.Set("Content-Type", "application/zip")
	header.Set("ETag", `"`+digest+`"`)
	header.Set("X-Skill-Version", found)
	header.Set("Content-Disposition", `attachment; filename="`+id.name+"-"+found+`.zip"`)
	http.ServeContent(w, r, "", created, object)

	return nil
}
