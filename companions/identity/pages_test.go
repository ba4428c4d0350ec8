package identity_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// visitor is a browser without scripts.
type visitor struct {
	t      *testing.T
	base   string
	client *http.Client
}

func newVisitor(t *testing.T, server *httptest.Server) *visitor {
	t.Helper()

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)

	return &visitor{t, server.URL, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type page struct {
	status int
	to     string // of a redirect
	text   string
	header http.Header
}

func (v *visitor) do(method, path, origin string, form url.Values) page {
	v.t.Helper()

	address := path
	if strings.HasPrefix(path, "/") {
		address = v.base + path
	}

	r, err := http.NewRequestWithContext(v.t.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)

	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
	}

	response, err := v.client.Do(r)
	require.NoError(v.t, err)

	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	require.NoError(v.t, err)

	return page{response.StatusCode, response.Header.Get("Location"), string(text), response.Header}
}

func (v *visitor) get(path string) page {
	v.t.Helper()
	return v.do(http.MethodGet, path, "", nil)
}

func (v *visitor) post(path string, form url.Values) page {
	v.t.Helper()
	return v.do(http.MethodPost, path, v.base, form)
}

func (v *visitor) signIn(username string) page {
	v.t.Helper()
	return v.post("/signin", url.Values{"username": {username}, "password": {password}})
}

// hidden returns the value of a hidden field.
func (p page) hidden(t *testing.T, name string) string {
	t.Helper()

	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(p.text)
	require.NotNil(t, found, p.text)

	return html.UnescapeString(found[1])
}

// codePattern finds the secret of an app on a page.
var codePattern = regexp.MustCompile(`<code>([A-Z2-7]+)</code>`)

func TestPages_signInAndOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	v := newVisitor(t, p.server)

	in := v.get("/")
	require.Equal(t, http.StatusOK, in.status)
	require.Contains(t, in.text, `<label for="password">`)
	require.Contains(t, in.header.Get("Content-Security-Policy"), "script-src 'self'")
	require.Equal(t, http.StatusSeeOther, v.get("/account").status, "the account needs a sign-in")

	wrong := v.post("/signin", url.Values{"username": {`<b>"eve`}, "password": {"a wrong password"}})
	require.Equal(t, http.StatusUnauthorized, wrong.status)
	require.Contains(t, wrong.text, "User name or password is wrong.")
	require.NotContains(t, wrong.text, "<b>")

	forged := v.do(http.MethodPost, "/signin", "https://evil.example", url.Values{"username": {"admin"}, "password": {password}})
	require.Equal(t, http.StatusForbidden, forged.status)
	require.Empty(t, forged.header.Values("Set-Cookie"))

	entered := v.signIn("admin")
	require.Equal(t, http.StatusSeeOther, entered.status, entered.text)
	require.Equal(t, "/account", entered.to)
	require.Equal(t, "/account", v.get("/").to)

	account := v.get("/account")
	require.Contains(t, account.text, "<strong>admin</strong>")
	require.Contains(t, account.text, "(this one)")

	require.Equal(t, http.StatusForbidden, v.do(http.MethodPost, "/account/signout", "null", nil).status)
	require.Equal(t, "/", v.post("/account/signout", url.Values{"everywhere": {"yes"}}).to)
	require.Equal(t, http.StatusUnauthorized, p.me(p.admin))
	require.Equal(t, "/", v.get("/account").to)
}

func TestPages_badForms(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	v := newVisitor(t, p.server)

	require.Equal(t, http.StatusRequestEntityTooLarge, v.post("/signin", url.Values{"username": {strings.Repeat("x", 70_000)}}).status)
	require.Equal(t, http.StatusUnprocessableEntity, v.post("/signin", url.Values{"username": {"a\x00"}, "password": {"x"}}).status)
	require.Equal(t, http.StatusUnprocessableEntity, v.post("/signin", url.Values{}).status)
	require.Equal(t, http.StatusUnauthorized, v.post("/signin/code", url.Values{"challenge": {"x"}, "code": {"123456"}}).status)
	require.Equal(t, http.StatusMethodNotAllowed, v.get("/signin").status)
	require.Equal(t, http.StatusNotFound, v.get("/assets/page.html").status)
	require.Equal(t, http.StatusNotFound, v.get("/signin/with/nothing").status)
	require.Equal(t, http.StatusOK, v.get("/?authorize="+strings.Repeat("x", 20_000)).status)

	require.Equal(t, http.StatusSeeOther, v.signIn("admin").status)

	for path, form := range map[string]url.Values{
		"/account/sessions":     {"id": {"x"}},
		"/account/passkeys":     {"id": {"x"}, "action": {"remove"}},
		"/account/links":        {"provider": {"x"}},
		"/account/links/remove": {"id": {"x"}},
	} {
		r := v.post(path, form)
		require.Equal(t, http.StatusNotFound, r.status, path)
		require.Contains(t, r.text, `role="alert"`)
	}
}

func TestPages_passwordAndSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	v, other := newVisitor(t, p.server), newVisitor(t, p.server)
	v.signIn("admin")
	other.signIn("admin")

	account := v.get("/account")
	require.Equal(t, http.StatusSeeOther, v.post("/account/sessions", url.Values{"id": {account.hidden(t, "id")}}).status)

	wrong := v.post("/account/password", url.Values{"current": {"not this one"}, "new": {"quite another one"}})
	require.Equal(t, http.StatusUnauthorized, wrong.status)
	require.Contains(t, wrong.text, "the current password is wrong")

	changed := v.post("/account/password", url.Values{"current": {password}, "new": {"quite another one"}})
	require.Equal(t, "/account?done=password", changed.to)
	require.Contains(t, v.get(changed.to).text, "The password was changed.")
	require.Equal(t, "/", other.get("/account").to, "all other sessions have ended")
	require.Equal(t, http.StatusUnauthorized, p.me(p.admin))
}

func TestPages_secondFactor(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	v := newVisitor(t, p.server)
	v.signIn("admin")

	shown := v.post("/account/totp", url.Values{"password": {password}})
	require.Contains(t, shown.text, "<svg")
	secret := codePattern.FindStringSubmatch(shown.text)[1]

	require.Equal(t, http.StatusUnauthorized, v.post("/account/totp/confirm", url.Values{"code": {"000000"}}).status)
	codes := v.post("/account/totp/confirm", url.Values{"code": {codeOf(t, secret, 0)}})
	require.Equal(t, http.StatusOK, codes.status)

	recovery := regexp.MustCompile(`<code>([A-Z2-7-]+)</code>`).FindAllStringSubmatch(codes.text, -1)
	require.Len(t, recovery, 10)

	// A client of the provider waits for the sign-in, which needs the code.
	waiting := url.Values{
		"client_id": {"desktop"}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, "state": {"s"},
	}
	fresh := newVisitor(t, p.server)
	asked := fresh.get(fresh.get("/oauth/authorize?" + waiting.Encode()).to)
	form := url.Values{"username": {"admin"}, "password": {password}, "authorize": {asked.hidden(t, "authorize")}}
	code := fresh.post("/signin", form)
	require.Equal(t, http.StatusOK, code.status)
	require.Empty(t, code.header.Values("Set-Cookie"), "the password is not enough")

	answer := url.Values{"challenge": {code.hidden(t, "challenge")}, "authorize": {code.hidden(t, "authorize")}}
	answer.Set("code", "000000")
	require.Equal(t, http.StatusUnauthorized, fresh.post("/signin/code", answer).status)
	answer.Set("code", recovery[0][1])

	entered := fresh.post("/signin/code", answer)
	require.Equal(t, http.StatusSeeOther, entered.status, entered.text)
	back, err := url.Parse(fresh.get(entered.to).to)
	require.NoError(t, err)
	require.Equal(t, redirectURI, back.Scheme+"://"+back.Host+back.Path)
	require.NotEmpty(t, back.Query().Get("code"))
	require.Contains(t, asked.header.Get("Content-Security-Policy"), "http://127.0.0.1:8080", "a form may lead to the client")

	require.Equal(t, http.StatusSeeOther,
		v.post("/account/password", url.Values{"current": {password}, "new": {"quite another one"}}).status)
	answer.Set("code", recovery[1][1])
	require.Equal(t, http.StatusUnauthorized, fresh.post("/signin/code", answer).status, "a challenge ends with its password")

	removed := v.post("/account/totp/remove", url.Values{"password": {"quite another one"}, "code": {recovery[2][1]}})
	require.Equal(t, "/account?done=totp", removed.to, removed.text)
}

func TestPages_withoutPasskeys(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil) // its issuer is neither https nor localhost
	v := newVisitor(t, p.server)

	require.NotContains(t, v.get("/").text, "passkey")
	v.signIn("admin")
	require.NotContains(t, v.get("/account").text, "asskey")

	for _, path := range []string{"begin", "login/begin"} {
		r := p.as(p.admin, http.MethodPost, "/api/v1/auth/passkeys/"+path, map[string]any{"current_password": password})
		require.Equal(t, http.StatusConflict, r.status)
		require.Equal(t, "passkeys_unavailable", r.body["code"])
	}
}
