package embedded

import (
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"everloop/internal/clients"
	"everloop/internal/hosts"
)

const (
	signInPath  = "/signin"
	signOutPath = "/signout"

	signInCookie   = "everloop_temporal"
	signInTime     = 12 * time.Hour
	maxSignIns     = 1000
	maxSignInBytes = 4 << 10
)

//go:embed signin.html
var signInPage string

var signInTemplate = template.Must(template.New("signin").Parse(signInPage))

// signIn serves pages to administrators. A browser sends an API key once, and receives a cookie
// that scripts cannot read and other sites cannot send.
type signIn struct {
	access temporalAccess
	hosts  hosts.List
	pages  http.Handler
	now    func() time.Time

	mu     sync.Mutex
	opened map[[32]byte]signedIn // by the SHA-256 of the cookie
}

// signedIn contains the key, in memory only, so that revoking it ends its sign-ins.
type signedIn struct {
	key   string
	until time.Time
}

// newSignIn wraps pages with all checks of a request.
func newSignIn(access temporalAccess, allowed hosts.List, pages http.Handler) http.Handler {
	s := &signIn{access: access, hosts: allowed, pages: pages, now: time.Now, opened: map[[32]byte]signedIn{}}
	routes := http.NewServeMux()
	routes.Handle("GET /healthz", pages)
	routes.HandleFunc("GET "+signInPath, s.show)
	routes.HandleFunc("POST "+signInPath, s.open)
	routes.HandleFunc("POST "+signOutPath, s.close)
	routes.HandleFunc("/", s.serve)

	return s.checkHost(http.NewCrossOriginProtection().Handler(routes))
}

// checkHost rejects requests with an unknown host name (DNS rebinding).
func (s *signIn) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hosts.Allows(r.Host) {
			http.Error(w, "this host name is not allowed: add it to ALLOWED_HOSTS", http.StatusForbidden)
			return
		}

		next.ServeHTTP(w, r)
	})
}

// serve serves the UI and Temporal's API to signed-in administrators.
func (s *signIn) serve(w http.ResponseWriter, r *http.Request) {
	if s.user(r) != "" {
		r.Header.Del("Authorization")
		s.pages.ServeHTTP(w, r)

		return
	}

	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/api/") {
		http.Error(w, "sign in at "+signInPath+" with an administrator's API key", http.StatusUnauthorized)
		return
	}

	http.Redirect(w, r, signInPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

// user returns the user of the request's cookie; empty: no valid cookie.
func (s *signIn) user(r *http.Request) string {
	cookie, err := r.Cookie(clients.CookieName(signInCookie, overHTTPS(r)))
	if err != nil {
		return ""
	}

	id := sha256.Sum256([]byte(cookie.Value))

	s.mu.Lock()
	found, ok := s.opened[id]
	s.mu.Unlock()

	if !ok || s.now().After(found.until) {
		return ""
	}

	name, err := s.access.caller(r.Context(), found.key)
	if errors.Is(err, ErrNoAdministrator) {
		s.forget(id)
	}

	if err != nil {
		return ""
	}

	return name
}

// show serves the page for signing in or out.
func (s *signIn) show(w http.ResponseWriter, r *http.Request) {
	s.page(w, http.StatusOK, signInData{Next: localPath(r.FormValue("next")), User: s.user(r)})
}

// open handles signing in.
func (s *signIn) open(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignInBytes)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "a form of at most 4 KB is needed", http.StatusBadRequest)
		return
	}

	next, key := localPath(r.PostForm.Get("next")), strings.TrimSpace(r.PostForm.Get("key"))
	if _, err := s.access.caller(r.Context(), key); err != nil {
		s.page(w, http.StatusUnauthorized, signInData{Next: next, Fault: err.Error()})
		return
	}

	value := rand.Text()
	s.keep(sha256.Sum256([]byte(value)), signedIn{key: key, until: s.now().Add(signInTime)})
	http.SetCookie(w, s.cookie(r, value, int(signInTime/time.Second)))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// close handles signing out.
func (s *signIn) close(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(clients.CookieName(signInCookie, overHTTPS(r))); err == nil {
		s.forget(sha256.Sum256([]byte(cookie.Value)))
	}

	http.SetCookie(w, s.cookie(r, "", -1))
	http.Redirect(w, r, signInPath, http.StatusSeeOther)
}

// cookie is Secure if a proxy reports that the browser uses HTTPS.
func (s *signIn) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: clients.CookieName(signInCookie, overHTTPS(r)), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: overHTTPS(r),
	}
}

// overHTTPS reports whether a proxy reports HTTPS; a forged header affects only its sender.
func overHTTPS(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// keep adds a sign-in. At the limit it removes expired sign-ins, or else all.
func (s *signIn) keep(id [32]byte, in signedIn) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.opened) >= maxSignIns {
		now := s.now()
		for other, in := range s.opened {
			if now.After(in.until) {
				delete(s.opened, other)
			}
		}
	}

	if len(s.opened) >= maxSignIns {
		clear(s.opened)
	}

	s.opened[id] = in
}

func (s *signIn) forget(id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.opened, id)
}

// signInData is the data of the page's template.
type signInData struct{ Next, User, Fault, Nonce string }

func (s *signIn) page(w http.ResponseWriter, status int, data signInData) {
	data.Nonce = rand.Text()
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'nonce-"+data.Nonce+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = signInTemplate.Execute(w, data)
}

// localPath returns the page to redirect to, which is always on this server.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}

	return u.RequestURI()
}
