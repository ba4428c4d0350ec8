package identity

import (
	"context"
	"errors"
	"net/http"

	"everloop/companions/identity/openid"
	"everloop/companions/identity/pages"
)

// consentPage shows the question whether a client may act for the person. A request that needs
// no consent continues at the provider.
func (s *Service) consentPage(w http.ResponseWriter, r *http.Request) error {
	waiting := waitingRequest(r.URL.Query().Get("authorize"))

	q, err := s.oidc.Ask(r, waiting)
	if err != nil {
		return err
	}

	if q == nil {
		http.Redirect(w, r, after(waiting), http.StatusSeeOther)
		return nil
	}

	return s.render(w, http.StatusOK, "consent", pages.View{
		Title: "Allow " + q.Client, Narrow: true, Authorize: waiting, Ticket: q.Ticket,
		Client: q.Client, Site: q.Site, Scopes: q.Scopes,
		Username: q.User.Username, Name: q.User.Name, Administers: q.User.Administrator,
		Everything: q.Everything,
	})
}

// submitConsent handles the form of the consent page. Only the cookie of a browser's session is
// accepted, so that a client cannot consent for itself.
func (s *Service) submitConsent(w http.ResponseWriter, r *http.Request) error {
	values, err := s.form(w, r)
	if err != nil {
		return s.failPage(w, err)
	}

	allow := values.Get("answer") == "allow"
	if !allow && values.Get("answer") != "refuse" {
		return s.failPage(w, invalid("body.answer", "must be allow or refuse"))
	}

	to, err := s.oidc.Answer(r, waitingRequest(values.Get("authorize")), values.Get("ticket"), allow)
	if errors.Is(err, openid.ErrForeignForm) {
		return s.failPage(w, fault(http.StatusForbidden, "consent_refused",
			"this form is not of the request that it came with: start the sign-in at the client again"))
	}

	if err != nil {
		return err
	}

	http.Redirect(w, r, to, http.StatusSeeOther)

	return nil
}

// listConsents lists the clients that the caller has consented to.
func (s *Service) listConsents(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	found, err := s.oidc.Consents(r.Context(), c.user.ID)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": found})

	return nil
}

// withdrawConsent withdraws one of the caller's consents.
func (s *Service) withdrawConsent(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	return noContent(w, s.withdraw(r, c, r.PathValue("client_id")))
}

// submitWithdrawal handles the account page's form that withdraws a consent.
func (s *Service) submitWithdrawal(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := s.withdraw(r, c, r.PostForm.Get("client_id")); err != nil {
		return err
	}

	return done(w, r, "consent")
}

func (s *Service) withdraw(r *http.Request, c caller, clientID string) error {
	missing := fault(http.StatusNotFound, "consent_not_found", "you have given this client no consent")
	if len(sane([]string{clientID})) == 0 {
		return missing
	}

	err := s.oidc.Withdraw(r, c.user.ID, clientID)
	if errors.Is(err, openid.ErrNoConsent) {
		return missing
	}

	return err
}

// showConsents adds the person's consents to the page.
func (s *Service) showConsents(ctx context.Context, c caller, v *pages.View) error {
	found, err := s.oidc.Consents(ctx, c.user.ID)

	for _, one := range found {
		v.Consents = append(v.Consents, pages.Consent(one))
	}

	return err
}
