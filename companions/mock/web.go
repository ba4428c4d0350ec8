package mock

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"everloop/companions/edge"
)

// webPage is a page of the demonstration's web, on which search and fetch work without the
// Internet.
type webPage struct {
	ID      int `json:"-"` // from 1
	Slug    string
	Title   string
	Snippet string
	Words   string          // further words that match
	Body    []template.HTML // paragraphs
}

//go:embed web.json
var webJSON []byte

var webPages = func() (pages []webPage) {
	if err := json.Unmarshal(webJSON, &pages); err != nil {
		panic("web.json: " + err.Error())
	}

	for i := range pages {
		pages[i].ID = i + 1
	}

	return pages
}()

const maxQuery = 1000 // bytes

// findPages returns all pages, sorted by the number of words shared with the query.
func findPages(query string) []webPage {
	words := strings.FieldsFunc(strings.ToLower(query[:min(len(query), maxQuery)]), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	score := func(p webPage) (n int) {
		text := strings.ToLower(p.Title + " " + p.Snippet + " " + p.Words)
		for _, word := range words {
			if len(word) > 2 && strings.Contains(text, word) {
				n++
			}
		}

		return n
	}

	return slices.SortedStableFunc(slices.Values(webPages), func(a, b webPage) int { return cmp.Compare(score(b), score(a)) })
}

// serveSearch handles GET /search?q=…&format=json in the format of SearXNG.
func serveSearch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("q")

	switch {
	case strings.TrimSpace(query) == "":
		writeError(w, badRequest("q is required"))
		return
	case r.URL.Query().Get("format") != "json":
		writeError(w, badRequest("format must be json"))
		return
	}

	var results []map[string]any
	for i, p := range findPages(query) {
		results = append(results, map[string]any{
			"url": "http://" + r.Host + "/pages/" + p.Slug, "title": p.Title, "content": p.Snippet, "engine": "demo",
			"score": 1 / float64(i+1), "category": "general",
		})
	}

	edge.WriteJSON(w, http.StatusOK, map[string]any{
		"query": query, "number_of_results": len(results), "results": results, "answers": []any{}, "suggestions": []any{},
		"unresponsive_engines": []any{},
	})
}

var webTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body>
<h1>{{.Title}}</h1>
{{range .Body}}{{.}}
{{end}}<hr><p>This page is part of Everloop's demonstration. See also:{{range .Others}} <a href="/pages/{{.Slug}}">{{.Title}}</a>{{end}}</p>
</body></html>
`))

// serveWebPage handles GET /pages/{page}.
func serveWebPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")

	i := slices.IndexFunc(webPages, func(p webPage) bool { return p.Slug == r.PathValue("page") })
	if i < 0 {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("<!doctype html><title>Not found</title><p>The demonstration's web has no such page.</p>"))

		return
	}

	_ = webTemplate.Execute(w, struct { // the client may have disconnected
		webPage
		Others []webPage
	}{webPages[i], slices.Delete(slices.Clone(webPages), i, i+1)})
}

// serveWiki handles list=search and prop=extracts of MediaWiki's interface.
func serveWiki(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()

	switch {
	case q.Get("list") == "search":
		limit, err := strconv.Atoi(q.Get("srlimit"))
		if err != nil || limit < 1 {
			limit = len(webPages)
		}

		hits := []map[string]any{}
		for _, p := range findPages(q.Get("srsearch"))[:min(limit, len(webPages))] {
			hits = append(hits, map[string]any{
				"ns": 0, "title": p.Title, "pageid": p.ID, "snippet": p.Snippet, "timestamp": "2026-01-01T00:00:00Z",
			})
		}

		edge.WriteJSON(w, http.StatusOK, map[string]any{"query": map[string]any{"search": hits}})
	case q.Get("prop") == "extracts":
		pages := map[string]any{}

		for _, p := range webPages {
			if id := strconv.Itoa(p.ID); id == q.Get("pageids") {
				var extract strings.Builder
				for _, paragraph := range p.Body {
					extract.WriteString(string(paragraph) + "\n")
				}

				pages[id] = map[string]any{"pageid": p.ID, "title": p.Title, "extract": extract.String()}
			}
		}

		edge.WriteJSON(w, http.StatusOK, map[string]any{"query": map[string]any{"pages": pages}})
	default:
		writeError(w, badRequest("only list=search and prop=extracts are supported"))
	}
}
