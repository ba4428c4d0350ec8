package mock

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A small web of made-up pages, so that searching and fetching can be shown
// without the Internet: GET /search answers as SearXNG does, GET /pages/{page}
// serves the pages that it finds, and GET /w/api.php finds and quotes them as
// MediaWiki does.

// webPage is one page of the demonstration's web.
type webPage struct {
	Slug    string   `json:"slug"`
	Title   string   `json:"title"`
	Snippet string   `json:"snippet"`
	Words   string   `json:"words"` // further words that find it
	Body    []string `json:"body"`  // paragraphs of HTML
}

//go:embed web.json
var webPagesJSON []byte

var webPages = func() (pages []webPage) {
	if err := json.Unmarshal(webPagesJSON, &pages); err != nil {
		panic("web.json: " + err.Error())
	}

	return pages
}()

const maxQuery = 1000 // bytes that are looked at

// findPages gives all pages, those that share most words with the query first:
// a demonstration that finds nothing shows nothing.
func findPages(query string) []webPage {
	asked := strings.FieldsFunc(strings.ToLower(query[:min(len(query), maxQuery)]), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	score := func(p webPage) (points int) {
		text := strings.ToLower(p.Title + " " + p.Snippet + " " + p.Words)
		for _, word := range asked {
			if len(word) > 2 && strings.Contains(text, word) {
				points++
			}
		}

		return points
	}
	pages := slices.Clone(webPages)
	slices.SortStableFunc(pages, func(a, b webPage) int { return cmp.Compare(score(b), score(a)) })

	return pages
}

// searchResult is a result as SearXNG gives it.
type searchResult struct {
	URL      string  `json:"url"`
	Title    string  `json:"title"`
	Content  string  `json:"content"`
	Engine   string  `json:"engine"`
	Score    float64 `json:"score"`
	Category string  `json:"category"`
}

// serveSearch answers GET /search?q=…&format=json.
func serveSearch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("q")
	switch {
	case strings.TrimSpace(query) == "":
		writeError(w, badRequest("q is missing"))
		return
	case r.URL.Query().Get("format") != "json":
		writeError(w, badRequest("only format=json is served"))
		return
	}

	results := []searchResult{}
	for i, p := range findPages(query) {
		results = append(results, searchResult{
			URL: "http://" + r.Host + "/pages/" + p.Slug, Title: p.Title, Content: p.Snippet, Engine: "demo",
			Score: 1 / float64(i+1), Category: "general",
		})
	}

	writeJSON(w, http.StatusOK, map[string]any{
		"query": query, "number_of_results": len(results), "results": results, "answers": []any{}, "suggestions": []any{},
		"unresponsive_engines": []any{},
	})
}

// serveWebPage serves one page as HTML.
func serveWebPage(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(webPages, func(p webPage) bool { return p.Slug == r.PathValue("page") })
	if i < 0 {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<!doctype html><title>Not found</title><p>The demonstration's web has no such page.</p>")

		return
	}

	p := webPages[i]
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	fmt.Fprintf(
		w,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%[1]s</title></head>\n<body>\n<h1>%[1]s</h1>\n%s\n"+
			"<hr><p>This page is part of Everloop's demonstration. See also: %s</p>\n</body></html>\n",
		html.EscapeString(p.Title),
		strings.Join(p.Body, "\n"),
		others(p),
	)
}

func others(p webPage) string {
	var links []string

	for _, other := range webPages {
		if other.Slug != p.Slug {
			links = append(links, fmt.Sprintf("<a href=\"/pages/%s\">%s</a>", other.Slug, html.EscapeString(other.Title)))
		}
	}

	return strings.Join(links, ", ")
}

// serveWiki answers the two questions of MediaWiki's interface that finding and
// quoting pages takes: list=search and prop=extracts.
func serveWiki(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Get("list") == "search":
		limit, err := strconv.Atoi(q.Get("srlimit"))
		if err != nil || limit < 1 {
			limit = 10
		}

		hits := []map[string]any{}
		for _, p := range findPages(q.Get("srsearch"))[:min(limit, len(webPages))] {
			hits = append(
				hits,
				map[string]any{
					"ns":        0,
					"title":     p.Title,
					"pageid":    pageID(p.Slug),
					"snippet":   p.Snippet,
					"timestamp": "2026-01-01T00:00:00Z",
				},
			)
		}

		writeJSON(w, http.StatusOK, map[string]any{"query": map[string]any{"search": hits}})
	case q.Get("prop") == "extracts":
		pages := map[string]any{}

		for _, p := range webPages {
			if id := pageID(p.Slug); strconv.Itoa(id) == q.Get("pageids") {
				pages[strconv.Itoa(id)] = map[string]any{"pageid": id, "title": p.Title, "extract": strings.Join(p.Body, "\n")}
			}
		}

		writeJSON(w, http.StatusOK, map[string]any{"query": map[string]any{"pages": pages}})
	default:
		writeError(w, badRequest("only list=search and prop=extracts are served"))
	}
}

// pageID numbers the pages from 1.
func pageID(slug string) int {
	return 1 + slices.IndexFunc(webPages, func(p webPage) bool { return p.Slug == slug })
}
