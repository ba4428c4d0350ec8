package identity_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"everloop/companions/identity"
	"everloop/companions/identity/openid"
	"everloop/internal/testkit"
)

const redirectURI = "http://127.0.0.1:8080/signin/callback"

func withClients(c *identity.Config) {
	c.Clients = []openid.Client{
		{
			ID: "desktop", RedirectURIs: []string{redirectURI}, SignOutURIs: []string{"http://127.0.0.1:8080/"}, FirstParty: true,
		},
		{ID: "other", RedirectURIs: []string{"https://other.example/callback"}},
		{ID: "third", RedirectURIs: []string{"https://third.example/callback"}},
	}
	c.UserGuesses = 100
}

// person is a browser in which the administrator may have signed in, with a client.
type person struct {
	t      *testing.T
	server *httptest.Server
	oauth  oauth2.Config
	cookie string
}

func newPerson(t *testing.T, server *httptest.Server) *person {
	t.Helper()

	return &person{t: t, server: server, oauth: oauth2.Config{
		ClientID: "desktop", RedirectURL: redirectURI, Scopes: []string{"openid", "profile", "email", "offline_access"},
		Endpoint: oauth2.Endpoint{
			AuthURL: server.URL + "/oauth/authorize", TokenURL: server.URL + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams,
		},
	}}
}

func (p *person) signIn() {
	p.t.Helper()
	in := login(p.t, p.server, "admin", password)
	require.Equal(p.t, http.StatusOK, in.status, in.body)

	for _, line := range in.header.Values("Set-Cookie") {
		if value, found := strings.CutPrefix(line, "everloop_session="); found {
			p.cookie, _, _ = strings.Cut(value, ";")
		}
	}
}

// get returns where a request is sent; it is not followed.
func (p *person) get(address string) (int, *url.URL) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	require.NoError(p.t, err)
	r.AddCookie(&http.Cookie{Name: "everloop_session", Value: p.cookie})
	response, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(p.t, err)

	defer response.Body.Close()

	to, err := url.Parse(response.Header.Get("Location"))
	require.NoError(p.t, err)

	return response.StatusCode, to
}

// authorize asks for a code; the answer is the query of the redirect.
func (p *person) authorize(verifier string, options ...oauth2.AuthCodeOption) url.Values {
	p.t.Helper()

	options = append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}, options...)
	status, to := p.get(p.oauth.AuthCodeURL("the state", options...))
	require.Equal(p.t, http.StatusFound, status)

	return to.Query()
}

func (p *person) tokens() *oauth2.Token {
	p.t.Helper()

	verifier := oauth2.GenerateVerifier()
	token, err := p.oauth.Exchange(p.t.Context(), p.authorize(verifier).Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(p.t, err)

	return token
}

func (p *person) refresh(token string) (*oauth2.Token, error) {
	return p.oauth.TokenSource(p.t.Context(), &oauth2.Token{RefreshToken: token}).Token()
}

func (p *person) me(access string) int {
	p.t.Helper()
	return send(p.t, http.MethodGet, p.server.URL+"/api/v1/auth/me", nil, map[string]string{"Authorization": "Bearer " + access}).status
}

func (p *person) post(path string, form url.Values) (int, map[string]any) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(p.t, err)

	defer response.Body.Close()

	body := map[string]any{}
	_ = json.NewDecoder(response.Body).Decode(&body)

	return response.StatusCode, body
}

func refusedWith(t *testing.T, err error, code string) {
	t.Helper()

	var refused *oauth2.RetrieveError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.ErrorCode, refused.ErrorDescription)
}

func payload(t *testing.T, token string) map[string]any {
	t.Helper()

	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)

	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))

	return out
}

func execute(t *testing.T, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)

	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))

	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

func TestProvider_wholeFlowAcrossRestart(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	p := newPerson(t, open(t, database, withClients))
	verifier := oauth2.GenerateVerifier()

	page := p.authorize(verifier, oauth2.SetAuthURLParam("nonce", "the nonce"))
	require.NotEmpty(t, page.Get("authorize"), "the sign-in page, which leads back")
	p = newPerson(t, open(t, database, withClients)) // a restart while the person types
	p.signIn()
	status, to := p.get(p.server.URL + "/oauth/authorize?" + page.Get("authorize"))
	require.Equal(t, http.StatusFound, status)
	require.Equal(t, redirectURI, to.Scheme+"://"+to.Host+to.Path)
	require.Equal(t, "the state", to.Query().Get("state"))
	require.Equal(t, "http://id.example", to.Query().Get("iss"))

	p.server = open(t, database, withClients) // and one before the code is exchanged
	p.oauth.Endpoint.TokenURL = p.server.URL + "/oauth/token"
	token, err := p.oauth.Exchange(t.Context(), to.Query().Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, p.me(token.AccessToken))
	idToken, _ := token.Extra("id_token").(string)
	said := payload(t, idToken)
	require.Equal(t, "the nonce", said["nonce"])
	require.Equal(t, "desktop", said["azp"])
	require.NotEmpty(t, said["at_hash"])
	require.Equal(t, http.StatusUnauthorized, p.me(idToken), "an ID token opens nothing")

	status, info := p.post("/oauth/userinfo", url.Values{"access_token": {token.AccessToken}})
	require.Equal(t, http.StatusOK, status, info)
	require.Equal(t, said["sub"], info["sub"])
	require.Equal(t, "admin", info["preferred_username"])

	status, info = p.post("/oauth/userinfo", url.Values{"access_token": {idToken}})
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, "invalid_token", info["error"])

	next, err := p.refresh(token.RefreshToken)
	require.NoError(t, err)
	require.Equal(t, payload(t, token.AccessToken)["sid"], payload(t, next.AccessToken)["sid"])
}

func TestProvider_refusesRequests(t *testing.T) {
	t.Parallel()
	p := newPerson(t, open(t, testkit.Postgres(t), withClients))
	p.signIn()

	set := oauth2.SetAuthURLParam
	for name, c := range map[string]struct {
		option oauth2.AuthCodeOption
		code   string // "": the person is not sent to the client
	}{
		"another redirect URI":     {set("redirect_uri", "http://127.0.0.1:8080/signin/callback/more"), ""},
		"redirect URI of another":  {set("redirect_uri", "https://other.example/callback"), ""},
		"unknown client":           {set("client_id", "unknown"), ""},
		"plain challenge":          {set("code_challenge_method", "plain"), "invalid_request"},
		"no challenge method":      {set("code_challenge_method", ""), "invalid_request"},
		"no challenge":             {set("code_challenge", ""), "invalid_request"},
		"short challenge":          {set("code_challenge", "abc"), "invalid_request"},
		"implicit flow":            {set("response_type", "id_token token"), "unauthorized_client"},
		"request object":           {set("request", "ey.ey.x"), "request_not_supported"},
		"long state":               {set("state", strings.Repeat("x", 3000)), "invalid_request"},
		"zero byte":                {set("nonce", "a\x00b"), "invalid_request"},
		"form_post":                {set("response_mode", "form_post"), "invalid_request"},
		"hint that is no ID token": {set("id_token_hint", "ey.ey.x"), "invalid_request"},
		"none with another":        {set("prompt", "none login"), "invalid_request"},
	} {
		status, to := p.get(p.oauth.AuthCodeURL("the state", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()), c.option))
		if c.code == "" {
			require.Equal(t, http.StatusBadRequest, status, name)
			continue
		}

		require.Equal(t, http.StatusFound, status, name)

		said := to.Query()
		if said.Get("error") == "" { // of a flow that answers in the fragment
			said, _ = url.ParseQuery(to.EscapedFragment())
		}

		require.Equal(t, c.code, said.Get("error"), "%s: %s", name, to)
		require.NotEmpty(t, said.Get("state"), name)
		require.Equal(t, "http://id.example", said.Get("iss"), "%s: clients refuse answers that name no issuer", name)
	}

	other := newPerson(t, p.server)
	require.Equal(t, "login_required", other.authorize(oauth2.GenerateVerifier(), set("prompt", "none")).Get("error"))

	// A new sign-in is asked for, and one that is older does not do.
	page := p.authorize(oauth2.GenerateVerifier(), set("prompt", "login"))
	require.NotEmpty(t, page.Get("authorize"))
	_, to := p.get(p.server.URL + "/oauth/authorize?" + page.Get("authorize"))
	require.NotEmpty(t, to.Query().Get("authorize"))
	p.signIn()
	_, to = p.get(p.server.URL + "/oauth/authorize?" + page.Get("authorize"))
	require.NotEmpty(t, to.Query().Get("code"))
}

func TestProvider_answersInTheFragment(t *testing.T) {
	t.Parallel()
	p := newPerson(t, open(t, testkit.Postgres(t), withClients))
	p.signIn()

	status, to := p.get(p.oauth.AuthCodeURL("a state, & 100 %", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()),
		oauth2.SetAuthURLParam("response_mode", "fragment")))
	require.Equal(t, http.StatusFound, status)
	require.Empty(t, to.RawQuery)

	said, err := url.ParseQuery(to.EscapedFragment()) // as a page reads location.hash
	require.NoError(t, err)
	require.Equal(t, "a state, & 100 %", said.Get("state"))
	require.Equal(t, "http://id.example", said.Get("iss"))
	require.NotEmpty(t, said.Get("code"))
}

func TestProvider_CodeExchange_refuses(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	p := newPerson(t, open(t, database, withClients))
	p.signIn()

	exchange := func(change func(url.Values)) (int, map[string]any) {
		verifier := oauth2.GenerateVerifier()
		form := url.Values{
			"grant_type": {"authorization_code"}, "client_id": {"desktop"}, "redirect_uri": {redirectURI},
			"code": {p.authorize(verifier).Get("code")}, "code_verifier": {verifier},
		}
		change(form)

		return p.post("/oauth/token", form)
	}
	for name, change := range map[string]func(url.Values){
		"wrong verifier":       func(f url.Values) { f.Set("code_verifier", oauth2.GenerateVerifier()) },
		"no verifier":          func(f url.Values) { f.Del("code_verifier") },
		"another client":       func(f url.Values) { f.Set("client_id", "other") },
		"another redirect URI": func(f url.Values) { f.Set("redirect_uri", "http://127.0.0.1:8080/") },
		"unknown code":         func(f url.Values) { f.Set("code", "ec_unknown") },
		"code that has expired": func(url.Values) {
			execute(t, database, `UPDATE identity.authorization_codes SET created_at = now() - interval '2 minutes'`)
		},
	} {
		status, body := exchange(change)
		require.Equal(t, http.StatusBadRequest, status, name)
		require.Equal(t, "invalid_grant", body["error"], name)
	}

	status, body := exchange(func(f url.Values) { f.Set("client_secret", "x") })
	require.Equal(t, http.StatusUnauthorized, status, "a public client has no secret")
	require.Equal(t, "invalid_client", body["error"])

	// A wrong verifier spends the code: it cannot be guessed at.
	verifier := oauth2.GenerateVerifier()
	code := p.authorize(verifier).Get("code")
	_, err := p.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(oauth2.GenerateVerifier()))
	refusedWith(t, err, "invalid_grant")
	_, err = p.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
	refusedWith(t, err, "invalid_grant")

	// A code is exchanged once, also by many at once, and a replay ends what it gave.
	code = p.authorize(verifier).Get("code")

	var wg sync.WaitGroup

	tokens := make([]*oauth2.Token, 5)
	for i := range tokens {
		wg.Go(func() { tokens[i], _ = p.oauth.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)) })
	}

	wg.Wait()

	given := 0

	for _, token := range tokens {
		if token != nil {
			given++

			require.Equal(t, http.StatusUnauthorized, p.me(token.AccessToken))
			_, err := p.refresh(token.RefreshToken)
			refusedWith(t, err, "invalid_grant")
		}
	}

	require.Equal(t, 1, given)
	require.Equal(t, http.StatusOK, p.me(p.tokens().AccessToken), "other sign-ins go on")
}

func TestProvider_RefreshToken_reuseEndsTheFamily(t *testing.T) {
	t.Parallel()
	p := newPerson(t, open(t, testkit.Postgres(t), withClients))
	p.signIn()
	first, beside := p.tokens(), p.tokens()
	second, err := p.refresh(first.RefreshToken)
	require.NoError(t, err)
	third, err := p.refresh(second.RefreshToken)
	require.NoError(t, err)
	_, err = p.refresh(first.RefreshToken)
	refusedWith(t, err, "invalid_grant")
	_, err = p.refresh(third.RefreshToken)
	refusedWith(t, err, "invalid_grant")
	require.Equal(t, http.StatusUnauthorized, p.me(third.AccessToken))
	require.Equal(t, http.StatusOK, p.me(beside.AccessToken), "another family goes on")

	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"other"}, "refresh_token": {beside.RefreshToken}}
	status, body := p.post("/oauth/token", form)
	require.Equal(t, http.StatusBadRequest, status, "of another client")
	require.Equal(t, "invalid_grant", body["error"])
	form.Set("client_id", "desktop")
	form.Set("scope", "openid admin")
	_, body = p.post("/oauth/token", form)
	require.Equal(t, "invalid_scope", body["error"])
	form.Set("scope", "openid")
	status, body = p.post("/oauth/token", form)
	require.Equal(t, http.StatusOK, status, body)
	cookie := map[string]string{"Cookie": "everloop_refresh=" + body["refresh_token"].(string)}
	require.Equal(t, http.StatusUnauthorized, send(t, http.MethodPost, p.server.URL+"/api/v1/auth/refresh", nil, cookie).status,
		"a client's token is no cookie")
}

func TestProvider_revocationAndEndSession(t *testing.T) {
	t.Parallel()
	p := newPerson(t, open(t, testkit.Postgres(t), withClients))
	p.signIn()
	one, two, three := p.tokens(), p.tokens(), p.tokens()
	revoke := func(client, token string) int {
		status, _ := p.post("/oauth/revoke", url.Values{"client_id": {client}, "token": {token}})
		return status
	}
	require.Equal(t, http.StatusOK, revoke("other", one.RefreshToken))
	require.Equal(t, http.StatusOK, p.me(one.AccessToken), "another client ends nothing")
	require.Equal(t, http.StatusOK, revoke("desktop", one.RefreshToken))
	require.Equal(t, http.StatusUnauthorized, p.me(one.AccessToken))
	require.Equal(t, http.StatusOK, revoke("desktop", two.AccessToken))
	_, err := p.refresh(two.RefreshToken)
	refusedWith(t, err, "invalid_grant")
	require.Equal(t, http.StatusOK, revoke("desktop", "nothing"))

	end := func(form url.Values) (int, *url.URL) {
		return p.get(p.server.URL + "/oauth/end_session?" + form.Encode())
	}
	idToken, _ := three.Extra("id_token").(string)

	home := "http://127.0.0.1:8080/"
	for name, form := range map[string]url.Values{
		"unregistered URI":         {"id_token_hint": {idToken}, "post_logout_redirect_uri": {"https://evil.example/"}},
		"URI without a hint":       {"client_id": {"desktop"}, "post_logout_redirect_uri": {home}},
		"access token":             {"id_token_hint": {three.AccessToken}, "post_logout_redirect_uri": {home}},
		"hint of another client":   {"id_token_hint": {idToken}, "client_id": {"other"}},
		"hint with a false word":   {"id_token_hint": {idToken[:len(idToken)-4] + "AAAA"}},
		"a state that is too long": {"id_token_hint": {idToken}, "post_logout_redirect_uri": {home}, "state": {strings.Repeat("x", 4000)}},
	} {
		status, _ := end(form)
		require.Equal(t, http.StatusBadRequest, status, name)
	}

	require.Equal(t, http.StatusOK, p.me(three.AccessToken))

	status, to := end(url.Values{"id_token_hint": {idToken}, "post_logout_redirect_uri": {home}, "state": {"s"}})
	require.Equal(t, http.StatusFound, status)
	require.Equal(t, home+"?state=s", to.String())
	require.Equal(t, http.StatusUnauthorized, p.me(three.AccessToken))
	require.NotEmpty(t, p.authorize(oauth2.GenerateVerifier()).Get("authorize"), "the browser has to sign in again")
}

func TestProvider_keyThatIsTooOld(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	p := newPerson(t, open(t, database, withClients))
	p.signIn()
	token := p.tokens()
	key := map[string]string{"Authorization": "Bearer " + token.AccessToken}
	require.Equal(t, http.StatusNoContent, send(t, http.MethodPost, p.server.URL+"/api/v1/keys/rotate", nil, key).status)
	require.Equal(t, http.StatusOK, p.me(token.AccessToken), "a retired key verifies")
	execute(t, database, `UPDATE identity.signing_keys SET retired_at = now() - interval '26 hours' WHERE retired_at IS NOT NULL`)
	require.Equal(t, http.StatusUnauthorized, p.me(token.AccessToken))
	keys, _ := send(t, http.MethodGet, p.server.URL+"/.well-known/jwks.json", nil, nil).body["keys"].([]any)
	require.Len(t, keys, 1)

	next, err := p.refresh(token.RefreshToken)
	require.NoError(t, err, "the sign-in goes on with the new key")
	require.Equal(t, http.StatusOK, p.me(next.AccessToken))
}

func TestProvider_guessesAreBounded(t *testing.T) {
	t.Parallel()
	p := newPerson(t, open(t, testkit.Postgres(t), func(c *identity.Config) { withClients(c); c.AddressGuesses = 1 }))
	refused := 0

	for range 8 { // one a minute: a machine however slow has not eight
		status, _ := p.post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {"desktop"}, "refresh_token": {"x"}})
		if status == http.StatusTooManyRequests {
			refused++
		}
	}

	require.Positive(t, refused)

	status, _ := p.post("/oauth/token?client_id=desktop", url.Values{"grant_type": {"refresh_token"}})
	require.Equal(t, http.StatusBadRequest, status, "secrets do not belong into addresses")
}

func TestProvider_crossOrigin(t *testing.T) {
	t.Parallel()
	server := open(t, testkit.Postgres(t), withClients)
	allowed := func(path, origin string) string {
		return send(t, http.MethodPost, server.URL+path, nil, map[string]string{"Origin": origin}).header.Get("Access-Control-Allow-Origin")
	}
	require.Equal(t, "http://127.0.0.1:8080", allowed("/oauth/token", "http://127.0.0.1:8080"))
	require.Empty(t, allowed("/oauth/token", "https://evil.example"))
	require.Empty(t, allowed("/api/v1/auth/login", "http://127.0.0.1:8080"))
}

func TestNewClient(t *testing.T) {
	t.Parallel()

	got, err := openid.NewClient("a", "https://a.example/one", "https://a.example/two")
	require.NoError(t, err)
	require.Equal(t, openid.Client{
		ID: "a", RedirectURIs: []string{"https://a.example/one", "https://a.example/two"}, SignOutURIs: []string{"https://a.example/"},
	}, got)

	_, err = openid.NewClient("b")
	require.ErrorContains(t, err, "no redirect URI")

	for _, c := range [][2]string{
		{"", "https://a.example/"},
		{"a", "http://a.example/"},
		{"a", "https://a.example/#x"},
		{"a", "https://*.example/"},
		{"a", "javascript:x"},
		{"a", "https://u:p@a.example/"},
		{"everloop", "https://a.example/"},
		{"a b", "https://a.example/"},
		{"a", ""},
	} {
		_, err := openid.NewClient(c[0], c[1])
		require.Error(t, err, c)
	}
}
