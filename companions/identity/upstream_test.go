package identity_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"everloop/companions/identity"
	"everloop/companions/identity/openid"
	"everloop/companions/identity/upstream"
	"everloop/internal/testkit"
)

// elsewhere is another OpenID provider. What it says of the person who signs in is in
// claims; its answers can be spoilt.
type elsewhere struct {
	t      *testing.T
	server *httptest.Server
	key    *rsa.PrivateKey
	claims map[string]any
	asked  url.Values // the last request for a code
	signBy *rsa.PrivateKey

	named  bool         // it reports that its answers name it
	visits atomic.Int64 // of its discovery document
	away   atomic.Bool
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)

	e := &elsewhere{t: t, key: key, signBy: key, claims: map[string]any{
		"sub": "0815", "preferred_username": "eve", "name": "Eve", "email": "eve@example.org", "email_verified": true,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		e.visits.Add(1)

		if e.away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}

		at := e.server.URL
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "authorization_response_iss_parameter_supported": e.named,
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Algorithm: "RS256"}}})
	})
	mux.HandleFunc("/token", e.token)
	e.server = httptest.NewServer(mux)
	t.Cleanup(e.server.Close)

	return e
}

func (e *elsewhere) token(w http.ResponseWriter, r *http.Request) {
	digest := sha256.Sum256([]byte(r.FormValue("code_verifier")))

	id, secret, _ := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret) // clients escape it (RFC 6749, 2.3.1)

	if base64.RawURLEncoding.EncodeToString(digest[:]) != e.asked.Get("code_challenge") || r.FormValue("code") != "the code" ||
		id != "everloop" || secret != "a secret" || r.FormValue("redirect_uri") != e.asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))

		return
	}

	said := map[string]any{
		"iss": e.server.URL, "aud": "everloop", "nonce": e.asked.Get("nonce"),
		"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(said, e.claims)

	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: e.signBy, KeyID: "k"}}, nil)
	if err == nil {
		var text string
		if text, err = jwt.Signed(signer).Claims(said).Serialize(); err == nil {
			w.Header().Set("Content-Type", "application/json")
			err = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text})
		}
	}

	if err != nil {
		e.t.Error(err)
	}
}

// with configures a service to sign people in here.
func (e *elsewhere) with(change func(*upstream.Provider)) func(*identity.Config) {
	return func(c *identity.Config) {
		p := upstream.Provider{
			ID: "corp", Name: "Corporate", Issuer: e.server.URL, ClientID: "everloop", ClientSecret: "a secret",
			Scopes: []string{"openid", "email"}, CreateUsers: true,
		}
		if change != nil {
			change(&p)
		}

		c.Providers = []upstream.Provider{p}
		c.UserGuesses = 100
	}
}

// answer returns what the provider sends a browser back with, which it has sent there.
func (e *elsewhere) answer(to string) url.Values {
	e.t.Helper()

	asked, err := url.Parse(to)
	require.NoError(e.t, err)

	e.asked = asked.Query()
	require.Equal(e.t, "S256", e.asked.Get("code_challenge_method"))
	require.NotEmpty(e.t, e.asked.Get("nonce"))
	require.Equal(e.t, "http://id.example/signin/callback/corp", e.asked.Get("redirect_uri"))

	return url.Values{"code": {"the code"}, "state": {e.asked.Get("state")}}
}

func (e *elsewhere) signIn(v *visitor) page {
	e.t.Helper()
	return v.get("/signin/callback/corp?" + e.answer(v.get("/signin/with/corp").to).Encode())
}

func TestUpstream_firstSignInMakesAUser(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	v := newVisitor(t, p.server)

	require.Contains(t, v.get("/").text, `href="/signin/with/corp"`)

	in := e.signIn(v)
	require.Equal(t, http.StatusSeeOther, in.status, in.text)
	require.Equal(t, "/account", in.to)

	account := v.get("/account")
	require.Contains(t, account.text, "<strong>eve</strong> (Eve)")
	require.NotContains(t, account.text, "Current password", "there is none")

	found := items(p.as(p.admin, http.MethodGet, "/api/v1/users?q=eve", nil))
	require.Len(t, found, 1)

	// The second sign-in finds the user, whatever the provider calls them now.
	e.claims["preferred_username"], e.claims["email"], e.claims["email_verified"] = "renamed", "new@example.org", false
	again := newVisitor(t, p.server)
	require.Equal(t, http.StatusSeeOther, e.signIn(again).status)
	require.Contains(t, again.get("/account").text, "<strong>eve</strong>")

	id, _ := found[0]["id"].(string)
	require.Equal(t, http.StatusOK, p.as(p.admin, http.MethodPatch, "/api/v1/users/"+id, map[string]any{"disabled": true}).status)
	require.Equal(t, http.StatusForbidden, e.signIn(newVisitor(t, p.server)).status)
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+id, nil).status)
	require.Equal(t, http.StatusForbidden, e.signIn(newVisitor(t, p.server)).status, "who was deleted does not come back")
}

func TestUpstream_notAdmitted(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(*elsewhere, *upstream.Provider){
		"not allowed":      func(_ *elsewhere, p *upstream.Provider) { p.CreateUsers = false },
		"not verified":     func(e *elsewhere, _ *upstream.Provider) { e.claims["email_verified"] = false },
		"not said":         func(e *elsewhere, _ *upstream.Provider) { delete(e.claims, "email_verified") },
		"no e-mail":        func(e *elsewhere, _ *upstream.Provider) { delete(e.claims, "email") },
		"another domain":   func(_ *elsewhere, p *upstream.Provider) { p.EmailDomains = []string{"example.com"} },
		"longer domain":    func(e *elsewhere, p *upstream.Provider) { p.EmailDomains = []string{"ample.org"} },
		"no valid address": func(e *elsewhere, _ *upstream.Provider) { e.claims["email"] = "eve" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newElsewhere(t)
			p := newPlace(t, e.with(func(p *upstream.Provider) { change(e, p) }))
			refused := e.signIn(newVisitor(t, p.server))
			require.Equal(t, http.StatusForbidden, refused.status, refused.text)
			require.Empty(t, items(p.as(p.admin, http.MethodGet, "/api/v1/users?q=eve", nil)))
			require.Contains(t, p.actions(), "auth.refused")
		})
	}
}

func TestUpstream_emailAloneLinksNothing(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	p.user("owner", map[string]any{"email": "EVE@example.org"})

	refused := e.signIn(newVisitor(t, p.server))
	require.Equal(t, http.StatusConflict, refused.status, refused.text)
	require.Contains(t, refused.text, "sign in to it, then link")

	// The owner links it, and signs in with it from then on.
	owner := newVisitor(t, p.server)
	owner.signIn("owner")
	leads := owner.post("/account/links", url.Values{"provider": {"corp"}, "password": {password}})
	require.Equal(t, http.StatusOK, leads.status)

	to := leads.header.Get("Refresh")[len("0; url="):]
	require.Equal(t, "/account?done=link", owner.get("/signin/callback/corp?"+e.answer(to).Encode()).to)

	later := newVisitor(t, p.server)
	require.Equal(t, http.StatusSeeOther, e.signIn(later).status)
	account := later.get("/account")
	require.Contains(t, account.text, "<strong>owner</strong>")

	// One account elsewhere belongs to one user.
	p.user("other", nil)

	other := newVisitor(t, p.server)
	other.signIn("other")
	to = other.post("/account/links", url.Values{"provider": {"corp"}, "password": {password}}).header.Get("Refresh")[len("0; url="):]
	require.Equal(t, http.StatusConflict, other.get("/signin/callback/corp?"+e.answer(to).Encode()).status)

	link := items(p.as(p.login("owner", password), http.MethodGet, "/api/v1/auth/links", nil))[0]
	require.Equal(t, e.server.URL, link["issuer"])
	id, _ := link["id"].(string)
	require.Equal(t, http.StatusNotFound, p.as(p.login("other", password), http.MethodDelete, "/api/v1/auth/links/"+id, nil).status)
	require.Equal(t, "/account?done=link", owner.post("/account/links/remove", url.Values{"id": {id}}).to)
	require.Equal(t, http.StatusConflict, e.signIn(newVisitor(t, p.server)).status)
	require.Subset(t, p.actions(), []string{"link.create", "link.remove"})
}

func TestUpstream_linkOfAnotherSession(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	p.user("owner", nil)

	v := newVisitor(t, p.server)
	v.signIn("owner")
	to := v.post("/account/links", url.Values{"provider": {"corp"}, "password": {password}}).header.Get("Refresh")[len("0; url="):]
	answer := e.answer(to)

	v.signIn("admin")
	require.Equal(t, http.StatusConflict, v.get("/signin/callback/corp?"+answer.Encode()).status)
	require.Empty(t, items(p.as(p.admin, http.MethodGet, "/api/v1/auth/links", nil)))
}

func TestUpstream_lastLinkStays(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	v := newVisitor(t, p.server)
	e.signIn(v)

	id := v.get("/account").hidden(t, "id")
	require.Equal(t, http.StatusConflict, v.post("/account/links/remove", url.Values{"id": {id}}).status)
}

func TestUpstream_spoiltAnswers(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))

	other, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)

	good := maps.Clone(e.claims)

	for name, spoil := range map[string]func(url.Values){
		"another state":   func(answer url.Values) { answer.Set("state", "x") },
		"no state":        func(answer url.Values) { answer.Del("state") },
		"another code":    func(answer url.Values) { answer.Set("code", "x") },
		"another iss":     func(answer url.Values) { answer.Set("iss", "https://evil.example") },
		"an error":        func(answer url.Values) { answer.Set("error", "access_denied") },
		"another nonce":   func(url.Values) { e.claims["nonce"] = "x" },
		"no nonce":        func(url.Values) { e.claims["nonce"] = "" },
		"another client":  func(url.Values) { e.claims["aud"] = "x" },
		"another party":   func(url.Values) { e.claims["azp"] = "x" },
		"no party of two": func(url.Values) { e.claims["aud"] = []string{"everloop", "x"} },
		"long subject":    func(url.Values) { e.claims["sub"] = strings.Repeat("x", 256) },
		"subject no text": func(url.Values) { e.claims["sub"] = "a\x00" },
		"another issuer":  func(url.Values) { e.claims["iss"] = "https://evil.example" },
		"expired":         func(url.Values) { e.claims["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no subject":      func(url.Values) { e.claims["sub"] = "" },
		"another key":     func(url.Values) { e.signBy = other },
		"another request": func(url.Values) { e.asked.Set("code_challenge", "x") },
	} {
		e.claims, e.signBy = maps.Clone(good), e.key
		v := newVisitor(t, p.server)
		answer := e.answer(v.get("/signin/with/corp").to)
		spoil(answer)
		refused := v.get("/signin/callback/corp?" + answer.Encode())
		require.Equal(t, http.StatusUnauthorized, refused.status, name)
		require.Equal(t, "/", v.get("/account").to, name)
	}

	require.Contains(t, p.actions(), "auth.refused")

	e.claims, e.signBy = good, e.key
	v := newVisitor(t, p.server)
	answer := e.answer(v.get("/signin/with/corp").to)
	require.Equal(t, http.StatusUnauthorized, newVisitor(t, p.server).get("/signin/callback/corp?"+answer.Encode()).status,
		"in another browser")
	require.Equal(t, http.StatusSeeOther, v.get("/signin/callback/corp?"+answer.Encode()).status)
	require.Equal(t, http.StatusUnauthorized, v.get("/signin/callback/corp?"+answer.Encode()).status, "a second time")
}

func TestUpstream_providerAway(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	e.away.Store(true)

	v := newVisitor(t, p.server)
	require.Equal(t, http.StatusServiceUnavailable, v.get("/signin/with/corp").status)
	require.Equal(t, http.StatusSeeOther, v.signIn("admin").status, "others sign in")

	e.away.Store(false)
	require.Eventually(t, func() bool { return newVisitor(t, p.server).get("/signin/with/corp").status == http.StatusSeeOther },
		time.Minute, 100*time.Millisecond)
}

func TestUpstream_secondFactorStays(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	p := newPlace(t, e.with(nil))
	v := newVisitor(t, p.server)
	e.signIn(v)

	shown := v.post("/account/totp", url.Values{})
	secret := codePattern.FindStringSubmatch(shown.text)[1]
	require.Equal(t, http.StatusOK, v.post("/account/totp/confirm", url.Values{"code": {codeOf(t, secret, 0)}}).status)

	fresh := newVisitor(t, p.server)
	asked := e.signIn(fresh)
	require.Equal(t, http.StatusOK, asked.status)
	require.Equal(t, "/", fresh.get("/account").to)

	entered := fresh.post("/signin/code", url.Values{"challenge": {asked.hidden(t, "challenge")}, "code": {codeOf(t, secret, 1)}})
	require.Equal(t, "/account", entered.to, entered.text)
}

// openReachable opens a service whose issuer is the address that it is reached at.
func openReachable(t *testing.T, change func(*identity.Config)) *httptest.Server {
	t.Helper()

	front := httptest.NewUnstartedServer(nil)
	issuer := "http://" + front.Listener.Addr().String()
	inner := open(t, testkit.Postgres(t), func(c *identity.Config) {
		c.Issuer, c.UserGuesses = issuer, 100
		if change != nil {
			change(c)
		}
	})
	front.Config.Handler = inner.Config.Handler
	front.Start()
	t.Cleanup(front.Close)

	return front
}

func TestUpstream_anotherIdentityService(t *testing.T) {
	t.Parallel()

	there := openReachable(t, func(c *identity.Config) {
		c.Clients = []openid.Client{{ID: "here", RedirectURIs: []string{"http://127.0.0.1:9/signin/callback/there"}}}
	})
	here := openReachable(t, func(c *identity.Config) {
		c.Providers = []upstream.Provider{
			{
				ID:          "there",
				Name:        "There",
				Issuer:      there.URL,
				ClientID:    "here",
				Scopes:      []string{"openid", "profile", "email"},
				CreateUsers: true,
			},
		}
		c.Issuer = "http://127.0.0.1:9" // the redirect URI is registered before it listens
	})

	// Browsers keep cookies by host, whatever the port: each service has its own browser.
	atHome, away := newVisitor(t, here), newVisitor(t, there)
	away.signIn("admin")

	questions := 0
	passOver := func(to string) page {
		sent := away.get(to)
		if strings.HasPrefix(sent.to, "/consent?") {
			questions++
			asked := away.get(sent.to)
			sent = away.post("/consent", url.Values{
				"authorize": {asked.hidden(t, "authorize")}, "ticket": {asked.hidden(t, "ticket")}, "answer": {"allow"},
			})
		}

		back, err := url.Parse(sent.to)
		require.NoError(t, err)
		require.NotEmpty(t, back.Query().Get("code"), back)

		return atHome.get(back.RequestURI())
	}

	require.Equal(t, http.StatusForbidden, passOver(atHome.get("/signin/with/there").to).status, "its e-mail addresses are not verified")

	atHome.signIn("admin")
	linked := passOver(
		atHome.post("/account/links", url.Values{"provider": {"there"}, "password": {password}}).header.Get("Refresh")[len("0; url="):],
	)
	require.Equal(t, "/account?done=link", linked.to, linked.text)

	atHome.post("/account/signout", nil)

	in := passOver(atHome.get("/signin/with/there").to)
	require.Equal(t, "/account", in.to, in.text)
	require.Contains(t, atHome.get("/account").text, "<strong>admin</strong>")
	require.Equal(t, 1, questions, "the other service asks for consent once")
}
