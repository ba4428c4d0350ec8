package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
	"everloop/companions/identity/openid"
	"everloop/companions/identity/pages"
	"everloop/companions/identity/upstream"
)

const (
	upstreamPurpose = "upstream-sign-in"
)

// departure is the state, in a sealed cookie, of a person whom the service has redirected to
// another provider.
type departure struct {
	Provider  string           `json:"p"`
	Attempt   upstream.Attempt `json:"a"`
	Authorize string           `json:"w"` // the request of an OpenID client that waits
	LinkTo    string           `json:"l"` // id of the user who links an account; "" for a sign-in
	At        time.Time        `json:"t"`
}

// flow returns the flow of a configured provider.
func (s *Service) flow(id string) (*upstream.Flow, error) {
	f, known := s.flows[id]
	if !known {
		return nil, fault(http.StatusNotFound, "provider_not_found", "no such provider is configured")
	}

	return f, nil
}

func (s *Service) providers() []pages.Provider {
	var out []pages.Provider
	for _, p := range s.cfg.Providers {
		out = append(out, pages.Provider{ID: p.ID, Name: p.Name})
	}

	return out
}

// depart starts a sign-in at another provider, and returns the URL to redirect the browser to.
func (s *Service) depart(w http.ResponseWriter, r *http.Request, providerID, waiting, linkTo string) (string, error) {
	f, err := s.flow(providerID)
	if err != nil {
		return "", err
	}

	to, attempt, err := f.Begin()
	if err != nil {
		return "", s.upstreamFault(providerID, err)
	}

	text, err := json.Marshal(departure{providerID, attempt, waiting, linkTo, time.Now()})
	if err != nil {
		return "", err
	}

	sealed, err := s.cfg.Box.Seal(upstreamPurpose, text)
	if err != nil {
		return "", err
	}

	value := base64.RawURLEncoding.EncodeToString(sealed)
	if len(value) > accounts.MaxCredential {
		return "", fault(http.StatusRequestEntityTooLarge, "request_too_long",
			"the request of the client is too long for a sign-in elsewhere")
	}

	s.setCookie(w, r, upstreamCookie, value, time.Now().Add(openid.SignInTime))

	return to, nil
}

// upstreamFault returns an error of a provider as people see it. The log contains the cause.
func (s *Service) upstreamFault(providerID string, err error) error {
	switch {
	case errors.Is(err, upstream.ErrUnavailable):
		s.log.Warn("failed to reach a provider of sign-ins", "provider", providerID, "error", err)
		return busy("the sign-in at this provider")
	case errors.Is(err, upstream.ErrRefused):
		s.log.Warn("failed to accept the answer of a provider of sign-ins", "provider", providerID, "error", err)
		return fault(http.StatusUnauthorized, "provider_refused", "the provider's answer was not accepted: sign in again")
	}

	return err
}

// signInWith redirects a person to another provider.
func (s *Service) signInWith(w http.ResponseWriter, r *http.Request) error {
	to, err := s.depart(w, r, r.PathValue("provider"), waitingRequest(r.URL.Query().Get("authorize")), "")
	if err != nil {
		return s.failPage(w, err)
	}

	http.Redirect(w, r, to, http.StatusSeeOther)

	return nil
}

// submitLink redirects a person to another provider to link their account there: the link
// allows signing in here, so the password is required. A form can redirect only to known sites,
// so that the page itself navigates.
func (s *Service) submitLink(w http.ResponseWriter, r *http.Request, c caller) error {
	provider := r.PostForm.Get("provider")
	if _, err := s.flow(provider); err != nil {
		return err
	}

	if err := s.confirmPassword(r, c, r.PostForm.Get("password")); err != nil {
		return err
	}

	to, err := s.depart(w, r, provider, "", c.user.ID)
	if err != nil {
		return err
	}

	w.Header().Set("Refresh", "0; url="+to)

	return s.render(w, http.StatusOK, "continue", pages.View{Title: "Continue", Narrow: true, Next: to})
}

// arrival handles the redirect from a provider.
func (s *Service) arrival(w http.ResponseWriter, r *http.Request) error {
	err := s.arrive(w, r)
	if err == nil {
		return nil
	}

	return s.failPage(w, err)
}

func (s *Service) arrive(w http.ResponseWriter, r *http.Request) error {
	gone, err := s.departed(w, r)
	if err != nil {
		return err
	}

	f, err := s.flow(gone.Provider)
	if err != nil {
		return err
	}

	query := r.URL.Query()
	if query.Get("error") != "" {
		return fault(http.StatusUnauthorized, "provider_refused", "the provider did not sign you in")
	}

	who, err := s.finish(r, f, gone.Attempt, query)
	if err != nil {
		return err
	}

	if gone.LinkTo != "" {
		return s.linkArrival(w, r, f, gone.LinkTo, who)
	}

	u, by, err := s.admit(r, f, who)
	if err != nil {
		return err
	}

	return s.proceed(w, r, u, by, gone.Authorize)
}

// finish verifies the provider's answer. A rejection counts as a guess of the client's address,
// because each attempt is a request to the provider.
func (s *Service) finish(r *http.Request, f *upstream.Flow, started upstream.Attempt, query url.Values) (upstream.ExternalUser, error) {
	ctx, allowances := r.Context(), []allowance{s.addressAllowance(r)}
	if err := s.spendGuess(ctx, allowances); err != nil {
		return upstream.ExternalUser{}, err
	}

	who, err := f.Finish(ctx, started, query.Get("state"), query.Get("iss"), query.Get("code"))
	if err == nil && (!plainText(who.Subject) || who.Subject == "" || len(who.Subject) > 255) {
		err = fmt.Errorf("%w: sub is not a text of 1 to 255 bytes", upstream.ErrRefused)
	}

	if errors.Is(err, upstream.ErrRefused) {
		details := map[string]string{"address": edge.Client(r).String(), "provider": f.Provider.ID, "code": "provider_refused"}
		return who, errors.Join(accounts.Audit(ctx, s.db, "", "auth.refused", "", details), s.upstreamFault(f.Provider.ID, err))
	}

	if err != nil {
		return who, s.upstreamFault(f.Provider.ID, err)
	}

	if checkEmail(who.Email) != nil { // it may be anything
		who.Email, who.EmailVerified = "", false
	}

	return who, s.returnGuess(ctx, allowances)
}

// departed reads and deletes the cookie of a returning person.
func (s *Service) departed(w http.ResponseWriter, r *http.Request) (departure, error) {
	var gone departure

	over := fault(http.StatusUnauthorized, "challenge_expired", "this took too long, or began in another browser: sign in again")

	cookie, err := s.cookie(r, upstreamCookie)
	if err != nil || len(cookie.Value) > accounts.MaxCredential {
		return gone, over
	}

	http.SetCookie(w, newCookie(upstreamCookie, s.overTLS(r)))

	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return gone, over
	}

	text, err := s.cfg.Box.Open(upstreamPurpose, sealed)
	if err != nil || json.Unmarshal(text, &gone) != nil || time.Since(gone.At) > openid.SignInTime ||
		gone.Provider != r.PathValue("provider") {
		return gone, over
	}

	return gone, nil
}

// linkArrival links an account for the person who started it in this browser.
func (s *Service) linkArrival(w http.ResponseWriter, r *http.Request, f *upstream.Flow, userID string, who upstream.ExternalUser) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	if c.user.ID != userID {
		return fault(http.StatusConflict, "another_user", "another user has signed in meanwhile: begin again")
	}

	if err := s.link(r.Context(), c.user, f.Provider.ID, who); err != nil {
		return err
	}

	return done(w, r, "link")
}

// wantedName returns the user name of a new account, derived from the provider's claims.
func wantedName(who upstream.ExternalUser) string {
	local, _, _ := strings.Cut(who.Email, "@")

	for _, name := range []string{who.Username, local} {
		if name = strings.TrimSpace(name); name != "" && checkName("", name, 100) == nil && plainText(name) {
			return name
		}
	}

	return "user"
}
