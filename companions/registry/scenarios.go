package registry

import (
	"net/http"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

// scenario is a bundle of resources for one purpose.
type scenario struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	ResourceIDs []string `json:"resource_ids"`
}

const (
	maxScenarios = 2000
	maxTags      = 20
	maxBundle    = 100
)

func (s *Service) listScenarios(w http.ResponseWriter, r *http.Request) error {
	limit, err := edge.Number(r, "limit", 500, 1, maxListed)
	if err != nil {
		return err
	}

	rows, err := s.db.Query(r.Context(), `
		SELECT id, title, description, type, tags, resource_ids FROM registry.scenarios ORDER BY id LIMIT $1`, limit)
	if err != nil {
		return err
	}

	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[scenario])
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, items[scenario]{list})

	return nil
}

// putScenario adds or replaces a bundle of existing resources.
func (s *Service) putScenario(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !wordForm.MatchString(id) {
		return edge.Invalid("path.id", "must be 1 to 64 lower-case letters, digits, hyphens and underscores")
	}

	caller, err := s.administrator(r)
	if err != nil {
		return err
	}

	var in struct {
		Title       string   `json:"title"`
		Description string   `json:"description"`
		Type        string   `json:"type"`
		Tags        []string `json:"tags"`
		ResourceIDs []string `json:"resource_ids"`
	}
	if err := edge.ReadJSON(w, r, edge.MaxBody, &in); err != nil {
		return err
	}

	c := scenario{
		ID: id, Title: in.Title, Description: in.Description, Type: in.Type,
		Tags: append([]string{}, in.Tags...), ResourceIDs: append([]string{}, in.ResourceIDs...),
	}
	if err := c.check(); err != nil {
		return err
	}

	var missing int
	if err := s.db.QueryRow(r.Context(), `
		SELECT count(*) FROM unnest($1::text[]) AS wanted WHERE NOT EXISTS (SELECT FROM registry.resources WHERE id = wanted)`,
		c.ResourceIDs).Scan(&missing); err != nil {
		return err
	}

	if missing > 0 {
		return edge.Invalid("body.resource_ids", "names %d resources that do not exist", missing)
	}

	stored, err := s.db.Exec(r.Context(), `
		INSERT INTO registry.scenarios (id, title, description, type, tags, resource_ids, owner) SELECT $1, $2, $3, $4, $5, $6, $7
		WHERE (SELECT count(*) FROM registry.scenarios) < $8 OR EXISTS (SELECT FROM registry.scenarios WHERE id = $1)
		ON CONFLICT (id) DO UPDATE SET title = EXCLUDED.title, description = EXCLUDED.description, type = EXCLUDED.type,
			tags = EXCLUDED.tags, resource_ids = EXCLUDED.resource_ids, owner = EXCLUDED.owner, updated_at = now()`,
		c.ID, c.Title, c.Description, c.Type, c.Tags, c.ResourceIDs, caller.Username, maxScenarios)
	if err != nil {
		return err
	}

	if stored.RowsAffected() == 0 {
		return edge.Refuse(http.StatusConflict, "too_many_scenarios", "the registry has at most %d scenarios", maxScenarios)
	}

	edge.WriteJSON(w, http.StatusOK, c)

	return nil
}

func (c *scenario) check() error {
	if err := checkText("body.title", c.Title, 1, maxTitle); err != nil {
		return err
	}

	if err := checkText("body.description", c.Description, 0, maxDescription); err != nil {
		return err
	}

	if err := checkText("body.type", c.Type, 1, maxTitle); err != nil {
		return err
	}

	if len(c.Tags) > maxTags {
		return edge.Invalid("body.tags", "has more than %d entries", maxTags)
	}

	if len(c.ResourceIDs) == 0 || len(c.ResourceIDs) > maxBundle {
		return edge.Invalid("body.resource_ids", "must have 1 to %d entries", maxBundle)
	}

	for _, tag := range c.Tags {
		if err := checkText("body.tags", tag, 1, maxTitle); err != nil {
			return err
		}
	}

	for _, id := range c.ResourceIDs {
		if err := checkText("body.resource_ids", id, 1, maxTitle); err != nil {
			return err
		}
	}

	return nil
}

func (s *Service) deleteScenario(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !wordForm.MatchString(id) {
		return edge.Invalid("path.id", "must be 1 to 64 lower-case letters, digits, hyphens and underscores")
	}

	if _, err := s.administrator(r); err != nil {
		return err
	}

	gone, err := s.db.Exec(r.Context(), `DELETE FROM registry.scenarios WHERE id = $1`, id)
	if err == nil && gone.RowsAffected() == 0 {
		err = edge.Refuse(http.StatusNotFound, "scenario_not_found", "the registry has no such scenario")
	}

	if err != nil {
		return err
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}
