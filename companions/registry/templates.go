package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"everloop/companions/edge"
)

// template is a form for a new resource: a JSON Schema of the values, and initial values.
type template struct {
	TypeKey     string          `json:"type_key"`
	Subtype     string          `json:"subtype"`
	Driver      string          `json:"driver,omitempty"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Version     string          `json:"version"`
	Schema      json.RawMessage `json:"schema"`
	Defaults    json.RawMessage `json:"defaults"`
}

const (
	templateColumns = `type_key, subtype, driver, title, description, version, schema, defaults`
	maxTemplates    = 500
)

func (s *Service) listTemplates(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.db.Query(r.Context(),
		`SELECT `+templateColumns+` FROM registry.templates ORDER BY type_key, subtype, driver LIMIT $1`, maxTemplates)
	if err != nil {
		return err
	}

	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[template])
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, items[template]{list})

	return nil
}

// templateKey parses the template of a request.
func templateKey(r *http.Request) (key [3]string, err error) {
	key = [3]string{r.PathValue("type"), r.PathValue("subtype"), r.URL.Query().Get("driver")}
	for i, where := range []string{"path.type_key", "path.subtype", "query.driver"} {
		if !wordForm.MatchString(key[i]) && (i < 2 || key[i] != "") {
			return key, edge.Invalid(where, "must be 1 to 64 lower-case letters, digits, hyphens and underscores")
		}
	}

	return key, nil
}

// getTemplate returns one template: of the requested variant, else the one without a driver,
// else the first.
func (s *Service) getTemplate(w http.ResponseWriter, r *http.Request) error {
	key, err := templateKey(r)
	if err != nil {
		return err
	}

	rows, err := s.db.Query(r.Context(), `
		SELECT `+templateColumns+` FROM registry.templates WHERE type_key = $1 AND subtype = $2 AND ($3 = '' OR driver = $3)
		ORDER BY driver LIMIT 1`, key[0], key[1], key[2])
	if err != nil {
		return err
	}

	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[template])
	if errors.Is(err, pgx.ErrNoRows) {
		return noTemplate()
	}

	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, found)

	return nil
}

func noTemplate() error {
	return edge.Refuse(http.StatusNotFound, "template_not_found", "the registry has no such template")
}

// putTemplate adds or replaces a template.
func (s *Service) putTemplate(w http.ResponseWriter, r *http.Request) error {
	key, err := templateKey(r)
	if err != nil {
		return err
	}

	caller, err := s.administrator(r)
	if err != nil {
		return err
	}

	var in struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Version     string          `json:"version"`
		Schema      json.RawMessage `json:"schema"`
		Defaults    json.RawMessage `json:"defaults"`
	}
	if err := edge.ReadJSON(w, r, edge.MaxBody, &in); err != nil {
		return err
	}

	if in.Defaults == nil {
		in.Defaults = json.RawMessage(`{}`)
	}

	t := template{
		TypeKey: key[0], Subtype: key[1], Driver: key[2],
		Title: in.Title, Description: in.Description, Version: in.Version, Schema: in.Schema, Defaults: in.Defaults,
	}
	if err := t.check(); err != nil {
		return err
	}

	stored, err := s.db.Exec(r.Context(), `
		INSERT INTO registry.templates (`+templateColumns+`, owner) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
		WHERE (SELECT count(*) FROM registry.templates) < $10
			OR EXISTS (SELECT FROM registry.templates WHERE type_key = $1 AND subtype = $2 AND driver = $3)
		ON CONFLICT (type_key, subtype, driver) DO UPDATE SET title = EXCLUDED.title, description = EXCLUDED.description,
			version = EXCLUDED.version, schema = EXCLUDED.schema, defaults = EXCLUDED.defaults, owner = EXCLUDED.owner, updated_at = now()`,
		t.TypeKey, t.Subtype, t.Driver, t.Title, t.Description, t.Version, t.Schema, t.Defaults, caller.Username, maxTemplates)
	if err != nil {
		return err
	}

	if stored.RowsAffected() == 0 {
		return edge.Refuse(http.StatusConflict, "too_many_templates", "the registry has at most %d templates", maxTemplates)
	}

	edge.WriteJSON(w, http.StatusOK, t)

	return nil
}

func (t *template) check() error {
	if err := checkText("body.title", t.Title, 1, maxTitle); err != nil {
		return err
	}

	if err := checkText("body.description", t.Description, 0, maxDescription); err != nil {
		return err
	}

	if _, err := checkVersion("body.version", t.Version); err != nil {
		return err
	}

	if bytes.Contains(t.Schema, []byte(`\u0000`)) || bytes.Contains(t.Defaults, []byte(`\u0000`)) {
		return edge.Invalid("body", "must not hold NUL characters")
	}

	schema, err := object("body.schema", t.Schema)
	if err != nil {
		return err
	}

	defaults, err := object("body.defaults", t.Defaults)
	if err != nil {
		return err
	}

	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // external schemas are not loaded

	if err := compiler.AddResource("template.json", schema); err != nil {
		return edge.Invalid("body.schema", "is not a JSON Schema")
	}

	compiled, err := compiler.Compile("template.json")
	if err != nil {
		return edge.Invalid("body.schema", "is not a JSON Schema that stands alone")
	}

	if len(defaults) > 0 && compiled.Validate(any(defaults)) != nil {
		return edge.Invalid("body.defaults", "do not follow the schema")
	}

	return nil
}

func object(where string, text json.RawMessage) (map[string]any, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))

	fields, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil, edge.Invalid(where, "must be a JSON object")
	}

	return fields, nil
}

func (s *Service) deleteTemplate(w http.ResponseWriter, r *http.Request) error {
	key, err := templateKey(r)
	if err != nil {
		return err
	}

	if _, err := s.administrator(r); err != nil {
		return err
	}

	gone, err := s.db.Exec(r.Context(), `DELETE FROM registry.templates WHERE type_key = $1 AND subtype = $2 AND driver = $3`,
		key[0], key[1], key[2])
	if err == nil && gone.RowsAffected() == 0 {
		err = noTemplate()
	}

	if err != nil {
		return err
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}
