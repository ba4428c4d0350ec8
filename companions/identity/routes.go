package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/internal/release"
)

// Handler serves the whole service.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(requestIDHeader, newID())
		h.Set(release.Header, release.Version)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")

		if !s.cfg.Hosts.Allows(r.Host) {
			s.fail(w, r, fault(http.StatusForbidden, "host_not_allowed", "this host name is not allowed: add it to ALLOWED_HOSTS"))
			return
		}

		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()

		s.mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// routes lists what the service answers, by path, so that a known path with another
// method is a 405.
func (s *Service) routes() {
	type methods map[string]func(http.ResponseWriter, *http.Request) error

	s.mux = http.NewServeMux()
	for path, handlers := range map[string]methods{
		"/{$}":                              {http.MethodGet: s.loginPage},
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
		"/api/v1/users/{id}":                {http.MethodDelete: s.deleteUser},
		"/api/v1/users/token-state":         {http.MethodPost: s.tokenState},
		"/api/v1/keys/rotate":               {http.MethodPost: s.rotateNow},
		"/api/v1/audit":                     {http.MethodGet: s.auditTrail},

		authorizePath:  {http.MethodGet: s.protocol, http.MethodPost: s.protocol},
		endSessionPath: {http.MethodGet: s.protocol, http.MethodPost: s.protocol},
		tokenPath:      {http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
		revokePath:     {http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
		userinfoPath:   {http.MethodGet: s.protocol, http.MethodPost: s.protocol, http.MethodOptions: s.protocol},
	} {
		allow := make([]string, 0, len(handlers))
		for method := range handlers {
			allow = append(allow, method)
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

// health says whether the service can do its work: its database answers.
func (s *Service) health(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()

	if err := s.db.Ping(ctx); err != nil {
		return busy("the database of the identity service")
	}

	answer(w, http.StatusOK, map[string]string{"status": "ok"})

	return nil
}

// me says whom a credential belongs to; the agent asks it about cookies and personal
// tokens.
func (s *Service) me(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
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

// tokenState says of persons whether they can sign in here.
func (s *Service) tokenState(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.administrator(r); err != nil {
		return err
	}

	type state struct {
		Sub   string `json:"sub"`
		Email string `json:"email"`
		Name  string `json:"name"`
		OK    bool   `json:"ok"`
	}

	var in struct{ Subs []string }
	if err := decode(w, r, &in); err != nil {
		return err
	}

	if len(in.Subs) > 1000 {
		return invalid("body.subs", "must have at most 1000 entries")
	}

	rows, _ := s.db.Query(r.Context(), `
		SELECT u.id, u.email, u.name,
		       EXISTS (SELECT 1 FROM identity.sessions s WHERE s.user_id = u.id AND s.ended_at IS NULL AND s.expires_at > now())
		    OR EXISTS (SELECT 1 FROM identity.personal_tokens t WHERE t.user_id = u.id AND t.revoked_at IS NULL)
		FROM   identity.users u WHERE u.deleted_at IS NULL AND u.id = ANY ($1)`, sane(in.Subs))

	states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[state])
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": append([]state{}, states...)})

	return nil
}

// auditTrail shows a page of the audit log, newest first.
func (s *Service) auditTrail(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.administrator(r); err != nil {
		return err
	}

	limit := 100

	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return invalid("query.limit", "must be a number from 1 to 1000")
		}

		limit = n
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
