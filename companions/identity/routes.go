package identity

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/openid"
)

// Handler returns the handler of the whole service, wrapped in the guard of its listener.
func (s *Service) Handler() http.Handler { return s.edge().Guarded() }

func (s *Service) edge() edge.Service {
	return edge.Service{
		Name: "identity", Hosts: s.cfg.Hosts, Log: s.log, Proxies: s.cfg.Proxies,
		Connections: connections, PerAddress: connectionsPerAddress,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			edge.Extend(w, requestTime)

			ctx, cancel := context.WithTimeout(r.Context(), requestTime)
			defer cancel()

			s.mux.ServeHTTP(w, r.WithContext(ctx))
		}),
	}
}

// routes registers the handlers by path, so that a known path with another method is a 405.
func (s *Service) routes() {
	type methods map[string]func(http.ResponseWriter, *http.Request) error

	s.mux = http.NewServeMux()
	for path, handlers := range map[string]methods{
		"/{$}":                              {http.MethodGet: s.signInPage},
		"/signin":                           {http.MethodPost: s.submitSignIn},
		"/signin/code":                      {http.MethodPost: s.submitCode},
		"/assets/{name}":                    {http.MethodGet: s.asset},
		"/account":                          {http.MethodGet: s.visitSettingUp(s.accountPage)},
		"/account/signout":                  {http.MethodPost: s.visitSettingUp(s.submitSignOut)},
		"/account/sessions":                 {http.MethodPost: s.visit(s.submitSessions)},
		"/account/password":                 {http.MethodPost: s.visit(s.submitPassword)},
		"/account/totp":                     {http.MethodPost: s.visitSettingUp(s.submitTOTP)},
		"/account/totp/confirm":             {http.MethodPost: s.visitSettingUp(s.submitTOTPCode)},
		"/account/totp/remove":              {http.MethodPost: s.visit(s.submitTOTPRemoval)},
		"/api/health":                       {http.MethodGet: s.health},
		"/.well-known/openid-configuration": {http.MethodGet: s.discovery},
		"/.well-known/jwks.json":            {http.MethodGet: s.showKeySet},
		"/api/v1/auth/login":                {http.MethodPost: s.login},
		"/api/v1/auth/refresh":              {http.MethodPost: s.refresh},
		"/api/v1/auth/logout":               {http.MethodPost: s.logout},
		"/api/v1/auth/password":             {http.MethodPost: s.changePassword},
		"/api/v1/auth/me":                   {http.MethodGet: s.me},
		"/api/v1/auth/alive":                {http.MethodPost: s.alive},
		"/api/v1/pat/v3/default":            {http.MethodGet: s.defaultPersonalToken, http.MethodDelete: s.revokeDefaultToken},
		"/api/v1/users":                     {http.MethodGet: s.listUsers, http.MethodPost: s.createUser},
		"/api/v1/auth/sessions":             {http.MethodGet: s.listSessions, http.MethodDelete: s.endOtherSessions},
		"/api/v1/auth/sessions/{id}":        {http.MethodDelete: s.endOwnSession},
		"/api/v1/users/{id}": {
			http.MethodGet: s.showUser, http.MethodPatch: s.changeUser, http.MethodDelete: s.deleteUser,
		},
		"/api/v1/auth/totp":                     {http.MethodGet: s.showTOTP, http.MethodPost: s.setUpTOTP},
		"/api/v1/auth/totp/confirm":             {http.MethodPost: s.confirmTOTP},
		"/api/v1/auth/totp/remove":              {http.MethodPost: s.removeTOTP},
		"/api/v1/auth/passkeys":                 {http.MethodGet: s.listPasskeys},
		"/api/v1/auth/passkeys/{id}":            {http.MethodPatch: s.renamePasskey, http.MethodDelete: s.removePasskey},
		"/api/v1/auth/passkeys/begin":           {http.MethodPost: s.beginPasskey},
		"/api/v1/auth/passkeys/finish":          {http.MethodPost: s.finishPasskey},
		"/api/v1/auth/passkeys/login/begin":     {http.MethodPost: s.beginPasskeyLogin},
		"/api/v1/auth/passkeys/login":           {http.MethodPost: s.passkeyLogin},
		"/signin/with/{provider}":               {http.MethodGet: s.signInWith},
		"/signin/callback/{provider}":           {http.MethodGet: s.arrival},
		"/api/v1/auth/links":                    {http.MethodGet: s.listLinks},
		"/api/v1/auth/links/{id}":               {http.MethodDelete: s.removeLink},
		openid.ConsentPath:                      {http.MethodGet: s.consentPage, http.MethodPost: s.submitConsent},
		"/api/v1/auth/consents":                 {http.MethodGet: s.listConsents},
		"/api/v1/auth/consents/{client_id}":     {http.MethodDelete: s.withdrawConsent},
		"/account/consents":                     {http.MethodPost: s.visit(s.submitWithdrawal)},
		"/account/links":                        {http.MethodPost: s.visit(s.submitLink)},
		"/account/links/remove":                 {http.MethodPost: s.visit(s.submitUnlink)},
		"/account/passkeys":                     {http.MethodPost: s.visit(s.submitPasskeys)},
		"/api/v1/users/{id}/totp":               {http.MethodDelete: s.removeUserTOTP},
		"/api/v1/users/{id}/passkeys":           {http.MethodDelete: s.removeWays("passkey.remove_all", dropPasskeys)},
		"/api/v1/users/{id}/links":              {http.MethodDelete: s.removeWays("link.remove_all", dropLinks)},
		"/api/v1/users/{id}/password":           {http.MethodPut: s.setPassword},
		"/api/v1/users/{id}/sessions":           {http.MethodGet: s.listUserSessions, http.MethodDelete: s.endUserSessions},
		"/api/v1/users/{id}/sessions/{session}": {http.MethodDelete: s.endUserSession},
		"/api/v1/users/token-state":             {http.MethodPost: s.tokenState},
		"/api/v1/keys/rotate":                   {http.MethodPost: s.rotateNow},
		"/api/v1/audit":                         {http.MethodGet: s.auditTrail},

		openid.AuthorizePath:  {http.MethodGet: s.protocol, http.MethodPost: s.protocol},
		openid.EndSessionPath: {http.MethodGet: s.protocol, http.MethodPost: s.protocol},
		openid.TokenPath:      {http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
		openid.RevokePath:     {http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
		openid.UserinfoPath:   {http.MethodGet: s.protocol, http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
	} {
		allow := slices.Sorted(maps.Keys(handlers))
		if handlers[http.MethodGet] != nil {
			allow = append(allow, http.MethodHead)
		}

		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			method := r.Method
			if method == http.MethodHead {
				method = http.MethodGet
			}

			handle, known := handlers[method]
			if !known {
				w.Header().Set("Allow", strings.Join(allow, ", "))
				s.fail(w, r, fault(http.StatusMethodNotAllowed, "method_not_allowed", "this path does not take %s", r.Method))

				return
			}

			if err := handle(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}

	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault(http.StatusNotFound, "route_not_found", "there is nothing at this path"))
	})
}

// health reports whether the database is available.
func (s *Service) health(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()

	if err := s.db.Ping(ctx); err != nil {
		return busy("the database of the identity service")
	}

	answer(w, http.StatusOK, map[string]string{"status": "ok"})

	return nil
}

// me returns the owner of a credential; the agent calls it for cookies and personal tokens.
func (s *Service) me(w http.ResponseWriter, r *http.Request) error {
	c, err := s.signedIn(r)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, struct {
		user
		Issuer       string `json:"issuer"`
		CredentialID string `json:"credential_id"`
	}{c.user, s.cfg.Issuer, c.credential()})

	return nil
}

// tokenState reports whether persons can sign in here.
func (s *Service) tokenState(w http.ResponseWriter, r *http.Request) error {
	_, in, err := input[struct {
		Subs []string `json:"subs"`
	}](w, r, s.administrator)
	if err != nil {
		return err
	}

	type state struct {
		Sub   string `json:"sub"`
		Email string `json:"email"`
		Name  string `json:"name"`
		OK    bool   `json:"ok"`
	}

	if len(in.Subs) > 1000 {
		return invalid("body.subs", "must have at most 1000 entries")
	}

	rows, _ := s.db.Query(r.Context(), `
		SELECT u.id, u.email, u.name,
		       EXISTS (SELECT 1 FROM identity.sessions s WHERE s.user_id = u.id AND s.ended_at IS NULL AND s.expires_at > now())
		    OR EXISTS (SELECT 1 FROM identity.personal_tokens t WHERE t.user_id = u.id AND t.revoked_at IS NULL AND t.expires_at > now())
		FROM   identity.users u WHERE u.deleted_at IS NULL AND u.id = ANY ($1)`, sane(in.Subs))

	states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[state])
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": append([]state{}, states...)})

	return nil
}

// auditTrail returns a page of the audit log, newest first.
func (s *Service) auditTrail(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.administrator(r); err != nil {
		return err
	}

	limit, err := pageLimit(r, usualRecords)
	if err != nil {
		return err
	}

	type record struct {
		ID        int64           `json:"id"`
		ActorID   string          `json:"actor_id"`
		Action    string          `json:"action"`
		Target    string          `json:"target"`
		Details   json.RawMessage `json:"details"`
		CreatedAt time.Time       `json:"created_at"`
	}

	rows, _ := s.db.Query(r.Context(), `
		SELECT id, actor_id, action, target, details, created_at FROM identity.audit ORDER BY id DESC LIMIT $1`, limit)

	records, err := pgx.CollectRows(rows, pgx.RowToStructByPos[record])
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": append([]record{}, records...)})

	return nil
}

// discovery serves the discovery document of the OpenID provider.
func (s *Service) discovery(w http.ResponseWriter, _ *http.Request) error {
	s.oidc.Describe(w)
	return nil
}
