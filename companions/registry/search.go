package registry

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

// listing is a skill in a list.
type listing struct {
	Org             string  `json:"org"`
	Name            string  `json:"name"`
	Description     string  `json:"description"`
	ReleasedVersion *string `json:"released_version"`
	Downloads       int64   `json:"downloads"`
	Score           float64 `json:"score"`
}

type listingPage struct {
	Items []listing `json:"items"`
	Total int       `json:"total"`
}

const (
	maxQuery = 500 // bytes
	maxWords = 10
)

// search lists the released skills that contain some of the words of q, by descending score: a
// match in the name scores higher than one in a description.
func (s *Service) search(w http.ResponseWriter, r *http.Request) error {
	limit, err := edge.Number(r, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}

	offset, err := edge.Number(r, "offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}

	query := r.URL.Query()
	if len(query.Get("q")) > maxQuery {
		return edge.Invalid("query.q", "has more than %d bytes", maxQuery)
	}

	org := query.Get("org")
	if org != "" && !orgForm.MatchString(org) {
		return edge.Invalid("query.org", "is not the name of an organisation")
	}

	page, err := s.find(r.Context(), query.Get("q"), org, limit, offset)
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, page)

	return nil
}

func (s *Service) find(ctx context.Context, q, org string, limit, offset int) (page listingPage, err error) {
	words := strings.Fields(strings.ToLower(strings.ToValidUTF8(strings.ReplaceAll(q, "\x00", " "), " ")))
	words = words[:min(len(words), maxWords)]

	const found = `
		WITH found AS (
			SELECT s.org, s.name, v.description, s.released_version, s.downloads, coalesce((
				SELECT avg(CASE
					WHEN s.name = word THEN 1
					WHEN word = ANY (string_to_array(s.name, '-')) OR word = lower(s.org) THEN 0.9
					WHEN strpos(s.name, word) > 0 THEN 0.7
					WHEN strpos(lower(v.description), word) > 0 THEN 0.4
					ELSE 0 END) FROM unnest($1::text[]) AS word), 1)::float8 AS score
			FROM registry.skills s
			JOIN registry.versions v ON v.org = s.org AND v.name = s.name AND v.version = s.released_version
			WHERE $2 = '' OR s.org = $2)`

	page.Items = []listing{}

	if words == nil {
		words = []string{}
	}

	rows, err := s.db.Query(ctx, found+`
		SELECT org, name, description, released_version, downloads, score FROM found WHERE score > 0
		ORDER BY score DESC, downloads DESC, org, name LIMIT $3 OFFSET $4`, words, org, limit, offset)
	if err != nil {
		return page, err
	}

	if page.Items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[listing]); err != nil {
		return page, err
	}

	err = s.db.QueryRow(ctx, found+` SELECT count(*) FROM found WHERE score > 0`, words, org).Scan(&page.Total)

	return page, err
}

// getSkill returns a skill with its released version.
func (s *Service) getSkill(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	var found listing

	found.Org, found.Name, found.Score = id.org, id.name, 1

	err = s.db.QueryRow(r.Context(), `
		SELECT coalesce(v.description, ''), s.released_version, s.downloads FROM registry.skills s
		LEFT JOIN registry.versions v ON v.org = s.org AND v.name = s.name AND v.version = s.released_version
		WHERE s.org = $1 AND s.name = $2`, id.org, id.name).Scan(&found.Description, &found.ReleasedVersion, &found.Downloads)
	if errors.Is(err, pgx.ErrNoRows) {
		return noSkill(id)
	}

	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, found)

	return nil
}
