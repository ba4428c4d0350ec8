package mock

import (
	_ "embed"
	"net/http"
)

//go:embed page.html
var page []byte

// servePage explains the service.
func servePage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")

	_, _ = w.Write(page)
}
