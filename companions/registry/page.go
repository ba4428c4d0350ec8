package registry

import (
	"bytes"
	_ "embed"
	"encoding/json"
	htmltemplate "html/template"
	"net/http"

	"everloop/companions/edge"
)

//go:embed page.html
var pageSource string

var page = htmltemplate.Must(htmltemplate.New("page").Parse(pageSource))

// view contains the data of the page: a list of skills, or one skill.
type view struct {
	Title   string
	Query   string
	List    []listing
	Total   int
	Skill   *skillID
	Org     string
	Name    string
	Shown   *wholeVersion
	Entries []versionView
	Files   []file
}

// indexPage lists the released skills.
func (s *Service) indexPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query().Get("q")
	if len(q) > maxQuery {
		return edge.Invalid("query.q", "has more than %d bytes", maxQuery)
	}

	found, err := s.find(r.Context(), q, "", maxPage, 0)
	if err != nil {
		return err
	}

	return render(w, view{Title: "Skills", Query: q, List: found.Items, Total: found.Total})
}

// skillPage shows the released version of a skill, else its highest.
func (s *Service) skillPage(w http.ResponseWriter, r *http.Request) error {
	id, err := skillOf(r)
	if err != nil {
		return err
	}

	entries, err := s.versions(r.Context(), id)
	if err != nil {
		return err
	}

	version := entries[0].Version
	for _, v := range entries {
		if v.Released {
			version = v.Version
		}
	}

	shown, err := s.version(r.Context(), id, version)
	if err != nil {
		return err
	}

	out := view{Title: id.org + "/" + id.name, Skill: &id, Org: id.org, Name: id.name, Shown: &shown, Entries: entries}
	if err := json.Unmarshal(shown.Files, &out.Files); err != nil {
		return err
	}

	return render(w, out)
}

func render(w http.ResponseWriter, v view) error {
	var html bytes.Buffer
	if err := page.Execute(&html, v); err != nil {
		return err
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(html.Bytes()) // fails only if the client has disconnected

	return nil
}
