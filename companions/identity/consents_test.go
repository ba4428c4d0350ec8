package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"everloop/companions/identity"
	"everloop/infra/secrets"
)

// asker is a client that asks for consent, in the browser of a visitor.
type asker struct {
	*visitor
	oauth    oauth2.Config
	verifier string
}

func newAsker(t *testing.T, p *place, client string) *asker {
	t.Helper()

	a := &asker{newVisitor(t, p.server), oauth2.Config{
		ClientID: client, RedirectURL: "https://" + client + ".example/callback", Scopes: []string{"openid", "offline_access"},
		Endpoint: oauth2.Endpoint{
			AuthURL: "/oauth/authorize", TokenURL: p.server.URL + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams,
		},
	}, oauth2.GenerateVerifier()}
	require.Equal(t, http.StatusSeeOther, a.signIn("admin").status)

	return a
}

// of returns the same browser with another client.
func (a *asker) of(client string) *asker {
	b := *a
	b.oauth.ClientID, b.oauth.RedirectURL = client, "https://"+client+".example/callback"

	return &b
}

// authorize asks for a code: where the browser is sent.
func (a *asker) authorize(parameters ...string) *url.URL {
	a.t.Helper()

	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.verifier)}
	for i := 0; i < len(parameters); i += 2 {
		options = append(options, oauth2.SetAuthURLParam(parameters[i], parameters[i+1]))
	}

	sent := a.get(a.oauth.AuthCodeURL("the state", options...))
	require.Equal(a.t, http.StatusFound, sent.status, sent.text)

	return parsed(a.t, sent.to)
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()

	to, err := url.Parse(address)
	require.NoError(t, err)

	return to
}

// question returns the page that asks, and its form.
func (a *asker) question(parameters ...string) (page, url.Values) {
	a.t.Helper()

	to := a.authorize(parameters...)
	require.Equal(a.t, "/consent", to.Path, to)

	shown := a.get(to.String())
	require.Equal(a.t, http.StatusOK, shown.status, shown.text)

	return shown, url.Values{"authorize": {shown.hidden(a.t, "authorize")}, "ticket": {shown.hidden(a.t, "ticket")}, "answer": {"allow"}}
}

// allow consents to a request, and returns the answer that the client gets.
func (a *asker) allow(parameters ...string) url.Values {
	a.t.Helper()

	_, form := a.question(parameters...)
	sent := a.post("/consent", form)
	require.Equal(a.t, http.StatusSeeOther, sent.status, sent.text)

	to := parsed(a.t, sent.to)
	require.Equal(a.t, a.oauth.RedirectURL, to.Scheme+"://"+to.Host+to.Path)

	return to.Query()
}

func (a *asker) exchange(code string) (*oauth2.Token, error) {
	return a.oauth.Exchange(a.t.Context(), code, oauth2.VerifierOption(a.verifier))
}

func (p *place) consents() []map[string]any {
	p.t.Helper()
	return items(p.as(p.admin, http.MethodGet, "/api/v1/auth/consents", nil))
}

func TestConsent_askedOnceAndForMoreScopes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	shown, form := a.question()
	require.Contains(t, shown.text, "<strong>https://other.example</strong>")
	require.Contains(t, shown.text, "Signed in as <strong>admin</strong>")
	require.Contains(t, shown.text, "Stay signed in")
	require.NotContains(t, shown.text, "as an administrator")
	require.NotContains(t, shown.text, "e-mail")
	require.Contains(t, shown.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Equal(t, "no-store", shown.header.Get("Cache-Control"))
	require.Empty(t, p.consents(), "nothing is kept of a question")

	sent := parsed(t, a.post("/consent", form).to).Query()
	require.Equal(t, "the state", sent.Get("state"))
	require.Equal(t, "http://id.example", sent.Get("iss"))

	token, err := a.exchange(sent.Get("code"))
	require.NoError(t, err)
	require.Equal(t, "openid offline_access", payload(t, token.AccessToken)["scope"])

	require.NotEmpty(t, a.authorize().Query().Get("code"), "it is remembered")
	require.NotEmpty(t, a.authorize("scope", "openid").Query().Get("code"), "for fewer scopes, too")
	require.Equal(t, "/consent", a.authorize("scope", "openid email").Path)
	require.Equal(t, "/consent", a.of("third").authorize().Path, "another client asks for itself")

	require.NotEmpty(t, a.allow("scope", "openid email").Get("code"))
	require.NotEmpty(t, a.authorize("scope", "openid email offline_access").Query().Get("code"), "scopes add up")
	require.Equal(t, "/consent", a.authorize("scope", "openid profile").Path)
	require.NotEmpty(t, a.authorize("scope", "openid phone unknown").Query().Get("code"), "scopes that open nothing need no consent")

	kept := p.consents()
	require.Len(t, kept, 1)
	require.Equal(t, "other", kept[0]["client_id"])
	require.Equal(t, []any{"email", "offline_access", "openid"}, kept[0]["scopes"])
	require.NotEmpty(t, kept[0]["granted_at"])
	require.Contains(t, p.actions(), "consent.grant")

	p.user("eve", nil)
	eve := newVisitor(t, p.server)
	eve.signIn("eve")

	b := *a
	b.visitor = eve
	shown, _ = b.question()
	require.Contains(t, shown.text, "<strong>eve</strong>", "another person is asked, too")
	require.NotContains(t, shown.text, "as an administrator")
}

func TestConsent_prompts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	refused := a.authorize("prompt", "none").Query()
	require.Equal(t, "consent_required", refused.Get("error"))
	require.Equal(t, "the state", refused.Get("state"))
	require.Equal(t, "http://id.example", refused.Get("iss"))

	// The address of the page does not ask where the client forbids it.
	silent := "/consent?" + url.Values{"authorize": {parsed(t, a.oauth.AuthCodeURL("s", oauth2.S256ChallengeOption(a.verifier),
		oauth2.SetAuthURLParam("prompt", "none"))).RawQuery}}.Encode()
	require.True(t, strings.HasPrefix(a.get(silent).to, "/oauth/authorize?"))

	require.NotEmpty(t, a.allow().Get("code"))
	require.NotEmpty(t, a.authorize("prompt", "none").Query().Get("code"))
	require.NotEmpty(t, a.allow("prompt", "consent").Get("code"), "it always asks")
	require.Equal(t, "/consent", a.authorize("prompt", "consent").Path)

	// A new sign-in first, then the question.
	page := a.authorize("prompt", "login consent")
	require.Equal(t, "/", page.Path)

	in := a.post("/signin", url.Values{"username": {"admin"}, "password": {password}, "authorize": {page.Query().Get("authorize")}})
	asked := a.get(in.to)
	require.True(t, strings.HasPrefix(asked.to, "/consent?"), asked.to)

	// Without a sign-in the question leads to the sign-in page.
	out := newVisitor(t, p.server)
	back := out.get(out.get(asked.to).to)
	require.Equal(t, "/", parsed(t, back.to).Path)
	require.NotEmpty(t, parsed(t, back.to).Query().Get("authorize"))
	require.Equal(t, "/account", out.get("/consent?authorize=%25").to)
	require.Equal(t, http.StatusBadRequest, out.get(out.get("/consent?authorize=client_id%3Dnone").to).status)
}

func TestConsent_refusal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	for range 2 { // a refusal is not remembered
		_, form := a.question()
		form.Set("answer", "refuse")
		to := parsed(t, a.post("/consent", form).to)
		require.Equal(t, "other.example", to.Host)
		require.Equal(t, "access_denied", to.Query().Get("error"))
		require.Equal(t, "the state", to.Query().Get("state"))
		require.Equal(t, "http://id.example", to.Query().Get("iss"))
		require.Empty(t, to.Query().Get("code"))
	}

	require.Empty(t, p.consents())
	require.Contains(t, p.actions(), "consent.refuse")
}

func TestConsent_desktopIsNotAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "desktop")
	a.oauth.RedirectURL = redirectURI

	require.NotEmpty(t, a.authorize().Query().Get("code"))
	require.NotEmpty(t, a.authorize("prompt", "consent").Query().Get("code"))
	require.Empty(t, p.consents())
}

// A page of another site gives no consent, nor does a form of another request.
func TestConsent_foreignForms(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	_, form := a.question()
	for _, origin := range []string{"https://other.example", "null", ""} {
		require.Equal(t, http.StatusForbidden, a.do(http.MethodPost, "/consent", origin, form).status, origin)
	}

	_, third := a.of("third").question()
	_, larger := a.question("scope", "openid email")
	_, elsewhere := a.question("state", "of another")

	for name, change := range map[string]func(url.Values){
		"another client":  func(f url.Values) { f.Set("authorize", third.Get("authorize")) },
		"larger scopes":   func(f url.Values) { f.Set("authorize", larger.Get("authorize")) },
		"another state":   func(f url.Values) { f.Set("authorize", elsewhere.Get("authorize")) },
		"no request":      func(f url.Values) { f.Del("authorize") },
		"no ticket":       func(f url.Values) { f.Del("ticket") },
		"a broken ticket": func(f url.Values) { f.Set("ticket", "A"+f.Get("ticket")[1:]) },
		"a long ticket":   func(f url.Values) { f.Set("ticket", strings.Repeat("A", 8000)) },
	} {
		changed := url.Values{"authorize": form["authorize"], "ticket": form["ticket"], "answer": form["answer"]}
		change(changed)

		refused := a.post("/consent", changed)
		require.Equal(t, http.StatusForbidden, refused.status, name)
		require.Contains(t, refused.text, `role="alert"`, name)
	}

	require.Equal(t, http.StatusUnprocessableEntity, a.post("/consent", url.Values{"answer": {"maybe"}}).status)

	// The ticket is of one sign-in: another user is asked, with and without a sign-in.
	p.user("eve", nil)
	eve, out := newVisitor(t, p.server), newVisitor(t, p.server)
	eve.signIn("eve")

	for _, v := range []*visitor{eve, out} {
		require.True(t, strings.HasPrefix(v.post("/consent", form).to, "/oauth/authorize?"))
	}

	require.Empty(t, p.consents())
	require.NotContains(t, p.actions(), "consent.grant")
}

// A form holds for ten minutes.
func TestConsent_oldForm(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")
	_, form := a.question()

	box, err := secrets.NewBox(strings.Repeat("k", 32)) // of the service
	require.NoError(t, err)
	sealed, err := base64.RawURLEncoding.DecodeString(form.Get("ticket"))
	require.NoError(t, err)
	text, err := box.Open("openid-consent", sealed)
	require.NoError(t, err)

	for age, path := range map[time.Duration]string{11 * time.Minute: "/oauth/authorize", 9 * time.Minute: "/callback"} {
		var ticket map[string]any
		require.NoError(t, json.Unmarshal(text, &ticket))
		ticket["t"] = time.Now().Add(-age)
		older, err := json.Marshal(ticket)
		require.NoError(t, err)
		sealed, err := box.Seal("openid-consent", older)
		require.NoError(t, err)

		form.Set("ticket", base64.RawURLEncoding.EncodeToString(sealed))
		require.Equal(t, path, parsed(t, a.post("/consent", form).to).Path, age)
	}
}

// A form counts once: what comes again is a request like any other.
func TestConsent_replay(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	_, form := a.question()
	require.NotEmpty(t, parsed(t, a.post("/consent", form).to).Query().Get("code"))

	again := a.post("/consent", form)
	require.True(t, strings.HasPrefix(again.to, "/oauth/authorize?"), again.to)
	require.NotEmpty(t, parsed(t, a.get(again.to).to).Query().Get("code"), "as after two clicks")

	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/auth/consents/other", nil).status)

	again = a.post("/consent", form)
	require.True(t, strings.HasPrefix(again.to, "/oauth/authorize?"), again.to)
	require.Equal(t, "/consent", parsed(t, a.get(again.to).to).Path, "a used form does not undo the withdrawal")
	require.Empty(t, p.consents())

	// Nor does the form of an account that was disabled in the meantime.
	_, form = a.question()

	p.exec(`UPDATE identity.users SET disabled = true`)
	require.True(t, strings.HasPrefix(a.post("/consent", form).to, "/oauth/authorize?"))
	p.exec(`UPDATE identity.users SET disabled = false`)
	require.Empty(t, p.consents())
}

func TestConsent_withdrawal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")

	token, err := a.exchange(a.allow().Get("code"))
	require.NoError(t, err)

	third := a.of("third")
	beside, err := third.exchange(third.allow().Get("code"))
	require.NoError(t, err)
	require.Len(t, p.consents(), 2)

	held := a.authorize().Query().Get("code")
	withdraw := func(client string) reply {
		return p.as(p.admin, http.MethodDelete, "/api/v1/auth/consents/"+client, nil)
	}
	require.Equal(t, http.StatusNoContent, withdraw("other").status)

	_, err = a.oauth.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	refusedWith(t, err, "invalid_grant")
	_, err = a.exchange(held)
	refusedWith(t, err, "invalid_grant")
	require.Equal(t, http.StatusUnauthorized, a.bearer(token.AccessToken))
	require.Equal(t, http.StatusOK, a.bearer(beside.AccessToken), "other clients go on")
	require.Equal(t, "/consent", a.authorize().Path)

	for _, unknown := range []string{"other", "unknown", strings.Repeat("x", 100), "a%00b"} {
		missing := withdraw(unknown)
		require.Equal(t, http.StatusNotFound, missing.status, unknown)
		require.Equal(t, "consent_not_found", missing.body["code"], unknown)
	}

	// The same by the account page.
	require.Contains(t, a.get("/account").text, "<strong>third</strong>")

	done := a.post("/account/consents", url.Values{"client_id": {"third"}})
	require.Equal(t, "/account?done=consent", done.to, done.text)
	require.NotContains(t, a.get(done.to).text, "<strong>third</strong>")
	require.Equal(t, http.StatusUnauthorized, a.bearer(beside.AccessToken))
	require.Equal(t, http.StatusNotFound, a.post("/account/consents", url.Values{"client_id": {"third"}}).status)
	require.Equal(t, http.StatusForbidden, a.do(http.MethodPost, "/account/consents", "https://evil.example", nil).status)
	require.Contains(t, p.actions(), "consent.withdraw")

	path := p.server.URL + "/api/v1/auth/consents"
	require.Equal(t, http.StatusUnauthorized, send(t, http.MethodGet, path, nil, nil).status)
	require.Equal(t, http.StatusUnauthorized, send(t, http.MethodDelete, path+"/other", nil, nil).status)
}

// bearer returns the status that an access token gets.
func (a *asker) bearer(token string) int {
	a.t.Helper()
	return send(a.t, http.MethodGet, a.base+"/api/v1/auth/me", nil, map[string]string{"Authorization": "Bearer " + token}).status
}

// A token of a client is no browser: the client cannot consent to itself.
func TestConsent_needsTheCookie(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")
	_, form := a.question()

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.server.URL+"/consent", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", p.server.URL)
	r.Header.Set("Authorization", bearer(p.admin)["Authorization"])
	response, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.True(t, strings.HasPrefix(response.Header.Get("Location"), "/oauth/authorize?"))
	require.Empty(t, p.consents())
}

// Consents end with their user, and with the configuration of their client.
func TestConsent_endsWithUserAndClient(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	eve := p.user("eve", nil)
	a := newAsker(t, p, "other")
	require.NotEmpty(t, a.allow().Get("code"))
	require.NotEmpty(t, a.of("third").allow().Get("code"))

	b := *a
	b.visitor = newVisitor(t, p.server)
	b.visitor.signIn("eve")
	require.NotEmpty(t, b.allow().Get("code"))
	require.Equal(t, http.StatusNoContent, p.as(p.admin, http.MethodDelete, "/api/v1/users/"+eve, nil).status)
	require.Equal(t, 2, p.count(`SELECT count(*) FROM identity.consents`))

	fewer, service := openService(t, p.database, func(c *identity.Config) {
		withClients(c)
		c.Clients = c.Clients[:2]
	})
	require.Equal(t, []map[string]any{p.consents()[0]}, items(send(t, http.MethodGet, fewer.URL+"/api/v1/auth/consents", nil,
		bearer(p.admin))), "a client that is not configured is not shown")
	require.NoError(t, service.Clean(t.Context()))
	require.Equal(t, 1, p.count(`SELECT count(*) FROM identity.consents WHERE client_id = 'other'`))
	require.Equal(t, 1, p.count(`SELECT count(*) FROM identity.consents`))
	require.Equal(t, "/consent", a.of("third").authorize().Path)
}

func (p *place) byToken(token, method, path string) reply {
	p.t.Helper()
	return send(p.t, method, p.server.URL+path, nil, map[string]string{"Authorization": "Bearer " + token})
}

func TestClient_rights(t *testing.T) {
	t.Parallel()

	withoutAdmin := []any{
		"sessions:read", "sessions:write", "chat", "files", "schedules", "triggers", "solutions", "workspaces", "skills", "skills:write",
	}

	for name, c := range map[string]struct {
		scope  string
		rights []any
		admin  int
	}{
		"by default all but administration": {"openid", withoutAdmin, http.StatusForbidden},
		"a part":                            {"openid chat", []any{"chat"}, http.StatusForbidden},
		"administration when asked for":     {"openid admin", []any{"admin"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, withClients)
			a := newAsker(t, p, "other")
			shown, _ := a.question("scope", c.scope)
			require.Equal(t, c.admin == http.StatusOK, strings.Contains(shown.text, "as an administrator"))

			token, err := a.exchange(a.allow("scope", c.scope).Get("code"))
			require.NoError(t, err)
			require.Equal(t, c.rights, payload(t, token.AccessToken)["rights"])

			at := func(method, path string) reply { return p.byToken(token.AccessToken, method, path) }
			require.Equal(t, http.StatusOK, at(http.MethodGet, "/api/v1/auth/me").status)
			require.Equal(t, c.admin, at(http.MethodGet, "/api/v1/users").status)

			for path, method := range map[string]string{
				"/api/v1/pat/v3/default": http.MethodGet, "/api/v1/auth/sessions": http.MethodGet, "/api/v1/auth/consents": http.MethodGet,
			} {
				refused := at(method, path)
				require.Equal(t, http.StatusForbidden, refused.status, path)
				require.Equal(t, "client_refused", refused.body["code"], path)
			}
		})
	}
}

// A consent to a part is none to everything, which a request without rights asks for.
func TestClient_rights_neverWidenWithoutConsent(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withClients)
	a := newAsker(t, p, "other")
	a.allow("scope", "openid chat")
	require.NotEmpty(t, a.authorize("scope", "openid chat").Query().Get("code"))
	a.question("scope", "openid files")
	a.question("scope", "openid")
	a.allow("scope", "openid")
	require.NotEmpty(t, a.authorize("scope", "openid").Query().Get("code"), "asked once")
	a.question("scope", "openid admin")
	require.Equal(t, []any{"chat", "openid"}, p.consents()[0]["scopes"])
}
