package openapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"
)

// Page serves Swagger UI for the document at documentPath: the page itself at
// base, and its scripts, styles and icons below.
func Page(documentPath, base string) http.Handler {
	return v5emb.NewHandlerWithConfig(swgui.Config{
		Title: title, SwaggerJSON: documentPath, BasePath: base,
		SettingsUI: map[string]string{
			"defaultModelsExpandDepth": "1", "docExpansion": `"none"`, "filter": "true", "persistAuthorization": "false",
		},
	})
}

var inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// PagePolicy returns the Content-Security-Policy for a page: it loads from this
// service alone, and runs only the inline scripts that it came with. Swagger UI
// sets styles from its scripts.
func PagePolicy(page []byte) string {
	scripts := "'self'"

	for _, found := range inlineScript.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(found[1])
		scripts += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}

	return strings.Join([]string{
		"default-src 'none'", "script-src " + scripts, "style-src 'self' 'unsafe-inline'", "img-src 'self' data:", "connect-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; ")
}
