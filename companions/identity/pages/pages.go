// Package pages has the pages of the identity service: sign-in, consent and account. They work
// without JavaScript, but for passkeys, which browsers offer to scripts alone. It must
// not know how anything on them comes about.
package pages

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed *.html style.css passkeys.js
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.html"))

// View is what a page shows. Each page uses some of its fields.
type View struct {
	Title  string
	Narrow bool
	Error  string
	Notice string

	Authorize string // the request of an OpenID client that waits for the sign-in
	Challenge string
	Providers []Provider

	Username    string
	Name        string
	HasPassword bool
	SetUpFirst  bool // an administrator must set up a second factor before anything else
	Administers bool // the person is an administrator
	Everything  bool // the client gets all rights but administration
	Sessions    []Session

	TOTP          bool
	RecoveryLeft  int
	Secret        string
	QR            template.HTML
	RecoveryCodes []string

	PasskeysOffered bool
	Passkeys        []Passkey

	Linked []Link

	Consents []Consent

	Client string // that asks for consent
	Site   string // of the client
	Scopes []string
	Ticket string

	Next string // where a page leads on to
}

// Provider is another service with which people may sign in.
type Provider struct{ ID, Name string }

// Session is an open session of the person.
type Session struct {
	ID, Device, Address string
	CreatedAt, LastUsed time.Time
	Current             bool
}

// Passkey is one of the person's.
type Passkey struct {
	ID, Name  string
	CreatedAt time.Time
	LastUsed  *time.Time
}

// Link is an account at another service with which the person signs in.
type Link struct {
	ID, Provider, Email string
	CreatedAt           time.Time
}

// Consent is what the person has allowed a client.
type Consent struct {
	ClientID  string
	Scopes    []string
	GrantedAt time.Time
}

// Policy returns the Content-Security-Policy of the pages. A form may lead to the origins of
// OpenID clients: browsers apply form-action to redirects, too.
func Policy(origins []string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"form-action 'self' " + strings.Join(origins, " ")
}

// Render answers with a page.
func Render(w http.ResponseWriter, status int, policy, page string, v View) error {
	var html bytes.Buffer
	if err := templates.ExecuteTemplate(&html, page, v); err != nil {
		return err
	}

	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "same-origin") // with none, browsers send no Origin with forms
	w.WriteHeader(status)
	_, _ = w.Write(html.Bytes()) // the client has gone otherwise

	return nil
}

// Asset answers with a file of the pages; false for one that they do not have.
func Asset(w http.ResponseWriter, name string) bool {
	kinds := map[string]string{"style.css": "text/css; charset=utf-8", "passkeys.js": "text/javascript; charset=utf-8"}

	kind, known := kinds[name]
	if !known {
		return false
	}

	content, err := files.ReadFile(name)
	if err != nil {
		return false
	}

	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content)

	return true
}
