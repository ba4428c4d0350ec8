package edge

import (
	_ "embed"
	"html/template"
	"mime"
	"net/http"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("problem").Parse(pageText))

// Answer writes a problem: as a page for a browser's navigation, else like Write.
func Answer(w http.ResponseWriter, r *http.Request, p *Problem) {
	if !opens(r) {
		Write(w, p)
		return
	}

	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	named := begin(w, p, "text/html; charset=utf-8")
	_ = page.Execute(w, named) // fails only if the client has disconnected
}

// opens reports whether a browser navigates to a page: it prefers HTML.
func opens(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	kind, _, _ := mime.ParseMediaType(first)

	return kind == "text/html" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}
