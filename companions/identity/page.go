package identity

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
)

//go:embed page.html
var loginHTML []byte

var inlineParts = regexp.MustCompile(`(?s)<(script|style)>(.*?)</`)

// loginPolicy allows the page's own script and style, by their hashes, and no other.
var loginPolicy = func() string {
	policy := []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"}

	for _, part := range inlineParts.FindAllSubmatch(loginHTML, -1) {
		hash := sha256.Sum256(part[2])
		policy = append(policy, string(part[1])+"-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'")
	}

	return strings.Join(policy, "; ")
}()

// loginPage lets a person sign in and out in a browser. It has no data of its own: its
// script uses the interface.
func (s *Service) loginPage(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", loginPolicy)
	_, err := w.Write(loginHTML)

	return err
}
