package embedded

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signInServer protects pages that say who asked for what.
func signInServer(t *testing.T, keys *knownKeys) *browser {
	t.Helper()

	access := temporalAccess{administrators: keys, logger: slog.New(slog.DiscardHandler)}
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
	server := httptest.NewServer(newSignIn(access, nil, pages))
	t.Cleanup(server.Close)

	return newBrowser(server.URL)
}

func TestSignIn_endsWithTheKeyAndBySignOut(t *testing.T) {
	t.Parallel()

	keys := &knownKeys{names: map[string]string{annsKey: "ann"}}
	ui := signInServer(t, keys)
	require.Equal(t, http.StatusSeeOther, ui.do(t, "POST", signInPath, "key="+annsKey+"&next=/namespaces/everloop"))
	require.Equal(t, "/namespaces/everloop", ui.answer.Header.Get("Location"))
	require.Equal(t, http.StatusOK, ui.do(t, "GET", "/x", ""))

	stolen := *ui
	require.Equal(t, http.StatusForbidden, ui.do(t, "POST", signOutPath, "", "Origin", "http://evil.example"))
	require.Equal(t, http.StatusSeeOther, ui.do(t, "POST", signOutPath, ""))
	require.Equal(t, http.StatusSeeOther, stolen.do(t, "GET", "/x", ""), "the cookie is worth nothing after a sign-out")

	require.Equal(t, http.StatusSeeOther, ui.do(t, "POST", signInPath, "key="+annsKey))
	require.Equal(t, http.StatusOK, ui.do(t, "GET", "/x", ""))
	keys.set(nil, nil)
	require.Equal(t, http.StatusUnauthorized, ui.do(t, "GET", "/api/v1/x", ""), "the key was revoked")
	keys.set(map[string]string{annsKey: "ann"}, nil)
	require.Equal(t, http.StatusUnauthorized, ui.do(t, "GET", "/api/v1/x", ""), "the sign-in does not come back with the key")
}

func TestSignIn_overHTTPS(t *testing.T) {
	t.Parallel()

	ui := signInServer(t, &knownKeys{names: map[string]string{annsKey: "ann"}})
	https := []string{"X-Forwarded-Proto", "https"}
	require.Equal(t, http.StatusSeeOther, ui.do(t, "POST", signInPath, "key="+annsKey, https...))
	require.Equal(t, http.StatusOK, ui.do(t, "GET", "/x", "", https...))

	planted := append(https, "Cookie", "everloop_temporal="+ui.cookie)
	require.Equal(t, http.StatusSeeOther, newBrowser(ui.base).do(t, "GET", "/x", "", planted...), "the name of another scheme")
}

func TestSignIn_ends(t *testing.T) {
	t.Parallel()

	now := time.Now()

	s := &signIn{now: func() time.Time { return now }, opened: map[[32]byte]signedIn{}}
	for i := range maxSignIns {
		s.keep([32]byte{byte(i), byte(i >> 8)}, signedIn{until: now.Add(time.Duration(i%2) * time.Hour)})
	}

	now = now.Add(time.Minute)
	s.keep([32]byte{1, 2, 3}, signedIn{until: now.Add(time.Hour)})
	require.Len(t, s.opened, maxSignIns/2+1, "those that ended make room")

	for i := range maxSignIns {
		s.keep([32]byte{byte(i), byte(i >> 8), 9}, signedIn{until: now.Add(time.Hour)})
	}

	require.LessOrEqual(t, len(s.opened), maxSignIns)
}

func TestSignIn_bounds(t *testing.T) {
	t.Parallel()
	ui := signInServer(t, &knownKeys{})
	require.Equal(t, http.StatusBadRequest, ui.do(t, "POST", signInPath, "key="+strings.Repeat("x", maxSignInBytes)))
	require.Equal(t, http.StatusOK, ui.do(t, "GET", signInPath+"?next=//evil.example", ""))
	require.Contains(t, ui.answer.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Equal(t, "no-store", ui.answer.Header.Get("Cache-Control"))
}

func TestLocalPath(t *testing.T) {
	t.Parallel()

	for next, want := range map[string]string{
		"": "/", "/": "/", "/a/b?c=d": "/a/b?c=d",
		"//evil.example": "/", "http://evil.example/": "/", `/\evil.example`: "/", "evil": "/", "javascript:alert(1)": "/", "/\tx": "/",
	} {
		require.Equal(t, want, localPath(next), next)
	}
}
