package identity

import (
	"net/http"
	"time"

	"everloop/internal/clients"
)

// Cookies of the service. Over HTTPS their names have the prefix __Host-.
const (
	sessionCookie  = "everloop_session"
	refreshCookie  = "everloop_refresh"
	upstreamCookie = "everloop_upstream"
)

// cookiePaths restrict cookies over HTTP. Over HTTPS the prefix requires the path /.
var cookiePaths = map[string]string{sessionCookie: "/", refreshCookie: "/api/v1/auth", upstreamCookie: "/signin/"}

// newCookie returns a cookie that deletes itself; callers set its value and lifetime.
func newCookie(name string, https bool) *http.Cookie {
	path := cookiePaths[name]
	if https {
		path = "/"
	}

	return &http.Cookie{
		Name: clients.CookieName(name, https), Path: path, MaxAge: -1, HttpOnly: true, Secure: https, SameSite: http.SameSiteLaxMode,
	}
}

func (s *Service) setCookie(w http.ResponseWriter, r *http.Request, name, value string, expires time.Time) {
	cookie := newCookie(name, s.overTLS(r))
	cookie.Value, cookie.Expires, cookie.MaxAge = value, expires, max(1, int(time.Until(expires).Seconds()))
	http.SetCookie(w, cookie)
}

// cookie reads a cookie by its name for the scheme of the request.
func (s *Service) cookie(r *http.Request, name string) (*http.Cookie, error) {
	return r.Cookie(clients.CookieName(name, s.overTLS(r)))
}

// overTLS reports whether the browser of a request uses HTTPS: always if the issuer does,
// otherwise if the request or a trusted proxy does.
func (s *Service) overTLS(r *http.Request) bool { return s.secure || s.cfg.Proxies.HTTPS(r) }

func (s *Service) clearCookies(w http.ResponseWriter, r *http.Request) {
	for _, cookie := range emptyCookies(s.overTLS(r)) {
		http.SetCookie(w, cookie)
	}
}

// emptyCookies returns cookies that delete the cookies of a session.
func emptyCookies(https bool) []*http.Cookie {
	return []*http.Cookie{newCookie(sessionCookie, https), newCookie(refreshCookie, https)}
}
