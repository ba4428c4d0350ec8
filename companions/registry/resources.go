package registry

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

// resource is a shared resource of the registry, of any kind.
type resource struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Subtype     string          `json:"subtype"`
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	Digest      string          `json:"digest"`
	Size        int64           `json:"size"`
	Owner       string          `json:"owner"`
	Tags        []string        `json:"tags"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	Data        json.RawMessage `json:"data"`
}

type resourcePage struct {
	Items []resource `json:"items"`
	Total int        `json:"total"`
}

const resourceColumns = `id, type, subtype, name, version, description, digest, size, owner, tags, created_at, updated_at, data`

func (s *Service) listResources(w http.ResponseWriter, r *http.Request) error {
	limit, err := edge.Number(r, "limit", defaultResources, 1, maxResources)
	if err != nil {
		return err
	}

	offset, err := edge.Number(r, "offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}

	query := r.URL.Query()
	for _, name := range []string{"type", "subtype"} {
		if err := checkText("query."+name, query.Get(name), 0, maxTitle); err != nil {
			return err
		}
	}

	const which = ` FROM registry.resources WHERE ($1 = '' OR type = $1) AND ($2 = '' OR subtype = $2)`

	rows, err := s.db.Query(r.Context(), `SELECT `+resourceColumns+which+` ORDER BY id LIMIT $3 OFFSET $4`,
		query.Get("type"), query.Get("subtype"), limit, offset)
	if err != nil {
		return err
	}

	var page resourcePage
	if page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[resource]); err != nil {
		return err
	}

	if err := s.db.QueryRow(r.Context(), `SELECT count(*)`+which, query.Get("type"), query.Get("subtype")).Scan(&page.Total); err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, page)

	return nil
}

func (s *Service) getResource(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := checkText("path.id", id, 1, maxTitle); err != nil {
		return err
	}

	rows, err := s.db.Query(r.Context(), `SELECT `+resourceColumns+` FROM registry.resources WHERE id = $1`, id)
	if err != nil {
		return err
	}

	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[resource])
	if errors.Is(err, pgx.ErrNoRows) {
		return edge.Refuse(http.StatusNotFound, "resource_not_found", "the registry has no such resource")
	}

	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, found)

	return nil
}

// stats counts the contents of the registry.
func (s *Service) stats(w http.ResponseWriter, r *http.Request) error {
	var counts struct {
		Skills        int        `json:"skills"`
		Versions      int        `json:"versions"`
		Organizations int        `json:"organizations"`
		Downloads     int64      `json:"downloads"`
		UpdatedAt     *time.Time `json:"updated_at"`
	}

	err := s.db.QueryRow(r.Context(), `
		SELECT (SELECT count(*) FROM registry.skills), (SELECT count(*) FROM registry.versions),
			(SELECT count(*) FROM registry.organizations), (SELECT coalesce(sum(downloads), 0)::bigint FROM registry.skills),
			(SELECT max(updated_at) FROM registry.skills)`).
		Scan(&counts.Skills, &counts.Versions, &counts.Organizations, &counts.Downloads, &counts.UpdatedAt)
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, counts)

	return nil
}
