package registry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

// released is the response to a release.
type released struct {
	Org        string    `json:"org"`
	Name       string    `json:"name"`
	Version    string    `json:"released_version"`
	Previous   *string   `json:"previous_version,omitempty"`
	ReleasedAt time.Time `json:"released_at"`
	ReleasedBy string    `json:"released_by"`
}

// release sets the recommended version.
func (s *Service) release(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	caller, err := s.writer(r)
	if err != nil {
		return err
	}

	var in struct {
		Version string `json:"version"`
	}
	if err := edge.ReadJSON(w, r, edge.MaxBody, &in); err != nil {
		return err
	}

	if _, err := checkVersion("body.version", in.Version); err != nil {
		return err
	}

	done := released{Org: id.org, Name: id.name, Version: in.Version, ReleasedBy: caller.Username}

	err = pgx.BeginFunc(r.Context(), s.db, func(tx pgx.Tx) error {
		if _, err := mayPublish(r.Context(), tx, id.org, caller); err != nil {
			return err
		}

		if done.Previous, err = lockSkill(r.Context(), tx, id); err != nil {
			return err
		}

		var yanked bool

		err := tx.QueryRow(r.Context(), `SELECT yanked_at IS NOT NULL FROM registry.versions WHERE org = $1 AND name = $2 AND version = $3`,
			id.org, id.name, in.Version).Scan(&yanked)
		if errors.Is(err, pgx.ErrNoRows) {
			return noVersion(id, in.Version)
		}

		if err != nil {
			return err
		}

		if yanked {
			return edge.Refuse(http.StatusConflict, "version_yanked", "a yanked version cannot be released")
		}

		return tx.QueryRow(r.Context(), `
			UPDATE registry.skills SET released_version = $3, released_at = now(), released_by = $4, updated_at = now()
			WHERE org = $1 AND name = $2 RETURNING released_at`, id.org, id.name, in.Version, caller.Username).Scan(&done.ReleasedAt)
	})
	if err != nil {
		return err
	}

	s.log.Info("skill version released", "org", id.org, "skill", id.name, "version", in.Version)
	edge.WriteJSON(w, http.StatusOK, done)

	return nil
}

// lockSkill locks the row of a skill and returns its released version.
func lockSkill(ctx context.Context, tx pgx.Tx, id skillID) (version *string, err error) {
	err = tx.QueryRow(ctx, `SELECT released_version FROM registry.skills WHERE org = $1 AND name = $2 FOR UPDATE`,
		id.org, id.name).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = noSkill(id)
	}

	return version, err
}

// yank withdraws a version, or restores it (DELETE). A yanked version is not recommended, and
// can still be downloaded by its number.
func (s *Service) yank(w http.ResponseWriter, r *http.Request) error {
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

	withdraw := r.Method == http.MethodPut
	ctx := r.Context()

	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := mayPublish(ctx, tx, id.org, caller); err != nil {
			return err
		}

		if _, err := lockSkill(ctx, tx, id); err != nil {
			return err
		}

		changed, err := tx.Exec(ctx, `
			UPDATE registry.versions SET yanked_at = CASE WHEN $4 THEN coalesce(yanked_at, now()) END
			WHERE org = $1 AND name = $2 AND version = $3`, id.org, id.name, version, withdraw)
		if err == nil && changed.RowsAffected() == 0 {
			err = noVersion(id, version)
		}

		if err != nil || !withdraw {
			return err
		}

		_, err = tx.Exec(ctx, `
			UPDATE registry.skills SET released_version = NULL, released_at = NULL, released_by = NULL, updated_at = now()
			WHERE org = $1 AND name = $2 AND released_version = $3`, id.org, id.name, version)

		return err
	})
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, map[string]any{"org": id.org, "name": id.name, "version": version, "yanked": withdraw})

	return nil
}
