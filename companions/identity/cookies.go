package identity

import "net/http"

// emptyCookies are cookies that remove those of a session. Over HTTPS they do, secure or
// not; over HTTP a browser takes those alone that are not.
func (s *Service) emptyCookies(secure bool) []*http.Cookie {
	var out []*http.Cookie
	for name, path := range map[string]string{sessionCookie: "/", refreshCookie: refreshPath} {
		out = append(out, &http.Cookie{
			Name: name, Path: path, MaxAge: -1, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		})
	}

	return out
}
