// Package pages contains the pages of the identity service: sign-in, consent and account. They
// work without JavaScript, except for passkeys, which need the browser's script API. It must
// not depend on where their data comes from.
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

// View contains the data of a page. Each page uses some of its fields.
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
	SetUpFirst  bool // the administrator must set up a second factor first
	Administers bool // the person is an administrator
	Everything  bool // the client receives all rights except administration
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

	Client string // the client that requests consent
	Site   string // of the client
	Scopes []string
	Ticket string

	Next string // path to continue at
}

// Provider is another identity provider for sign-in.
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

// Link is an account at another provider that the person signs in with.
type Link struct {
	ID, Provider, Email string
	CreatedAt           time.Time
}

// Consent is a person's consent to a client.
type Consent struct {
	ClientID  string
	Scopes    []string
	GrantedAt time.Time
}

// Policy returns the Content-Security-Policy of the pages. It allows forms to redirect to the
// origins of OpenID clients, because browsers apply form-action to redirects, too.
func Policy(origins []string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"form-action 'self' " + strings.Join(origins, " ")
}

// Render writes a page.
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
	_, _ = w.Write(html.Bytes()) // fails only if the client has disconnected

	return nil
}

// Asset serves a file of the pages; false if it does not exist.
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
