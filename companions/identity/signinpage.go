package identity

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"everloop/companions/identity/accounts"
	"everloop/companions/identity/openid"
	"everloop/companions/identity/pages"
)

// form parses a form of a page of this service. A page of another site cannot send it, so that
// it cannot sign in its visitors as another user.
func (s *Service) form(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, fault(http.StatusUnsupportedMediaType, "unsupported_media_type", "send the form of the page")
	}

	if err := s.checkOrigin(r); err != nil {
		return nil, err
	}

	r.Body = http.MaxBytesReader(w, r.Body, maxBody)

	err = r.ParseForm()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, fault(http.StatusRequestEntityTooLarge, "body_too_large", "the form holds more than %d bytes", maxBody)
	}

	if err != nil {
		return nil, fault(http.StatusBadRequest, "malformed_request", "the form could not be read")
	}

	for name, values := range r.PostForm {
		for _, value := range values {
			if !plainText(value) {
				return nil, invalid("body."+name, "must be text")
			}
		}
	}

	return r.PostForm, nil
}

// pageFault returns the text of an error for a page; false for an error that is not a Fault.
func pageFault(err error) (status int, text string, known bool) {
	f, known := errors.AsType[*Fault](err)
	if !known {
		return 0, "", false
	}

	return f.Status, strings.TrimPrefix(f.Detail, "body."), true
}

func (s *Service) render(w http.ResponseWriter, status int, page string, v pages.View) error {
	return pages.Render(w, status, s.pagePolicy, page, v)
}

// asset serves the pages' style and script.
func (s *Service) asset(w http.ResponseWriter, r *http.Request) error {
	if !pages.Asset(w, r.PathValue("name")) {
		return fault(http.StatusNotFound, "route_not_found", "there is nothing at this path")
	}

	return nil
}

// waitingRequest returns the parameters of an OpenID client's request that continues after the
// sign-in; "" without one, or if they are invalid.
func waitingRequest(text string) string {
	if len(text) > 2*openid.MaxAuthorize {
		return ""
	}

	parameters, err := url.ParseQuery(text)
	if err != nil {
		return ""
	}

	return parameters.Encode()
}

// after returns the path to redirect to after the sign-in. It is a path of this service.
func after(waiting string) string {
	if waiting == "" {
		return "/account"
	}

	return openid.AuthorizePath + "?" + waiting
}

// signInPage prompts for user name and password. It redirects signed-in people to their
// account, unless a client requires another sign-in.
func (s *Service) signInPage(w http.ResponseWriter, r *http.Request) error {
	waiting := waitingRequest(r.URL.Query().Get("authorize"))
	if waiting == "" {
		_, err := s.person(r)
		if err == nil {
			http.Redirect(w, r, "/account", http.StatusSeeOther)
			return nil
		}

		if _, refused := errors.AsType[*Fault](err); !refused {
			return err
		}
	}

	return s.showSignIn(w, http.StatusOK, pages.View{Authorize: waiting})
}

func (s *Service) showSignIn(w http.ResponseWriter, status int, v pages.View) error {
	v.Title, v.Narrow, v.PasskeysOffered, v.Providers = "Sign in", true, s.passkeys != nil, s.providers()

	return s.render(w, status, "signin", v)
}

// submitSignIn handles the form of the sign-in page.
func (s *Service) submitSignIn(w http.ResponseWriter, r *http.Request) error {
	values, err := s.form(w, r)
	if err != nil {
		return s.failPage(w, err)
	}

	view := pages.View{Username: values.Get("username"), Authorize: waitingRequest(values.Get("authorize"))}

	u, hash, err := s.checkLogin(r, view.Username, values.Get("password"))
	if err == nil {
		err = s.proceed(w, r, u, proof{AMR: byPassword, Password: accounts.Hash(hash)}, view.Authorize)
	}

	status, text, known := pageFault(err)
	if !known {
		return err
	}

	if view.Error = text; status == http.StatusUnauthorized {
		view.Error = "User name or password is wrong."
	}

	return s.showSignIn(w, status, view)
}

// proceed signs in an authenticated person, or prompts for the code first.
func (s *Service) proceed(w http.ResponseWriter, r *http.Request, u user, by proof, waiting string) error {
	second, err := s.hasSecondFactor(r.Context(), u.ID)
	if err != nil {
		return err
	}

	if !second {
		return s.enter(w, r, u, by, waiting)
	}

	challenge, err := s.sealChallenge(u.ID, by)
	if err != nil {
		return err
	}

	return s.showCode(w, http.StatusOK, pages.View{Challenge: challenge, Authorize: waiting})
}

func (s *Service) showCode(w http.ResponseWriter, status int, v pages.View) error {
	v.Title, v.Narrow = "Enter your code", true

	return s.render(w, status, "code", v)
}

// enter creates the session of a browser and redirects.
func (s *Service) enter(w http.ResponseWriter, r *http.Request, u user, by proof, waiting string) error {
	made, err := s.openSession(r, u, by)
	if err != nil {
		return err
	}

	s.setCookie(w, r, sessionCookie, made.cookie, made.expires)
	s.setCookie(w, r, refreshCookie, made.refresh, made.expires)

	to := after(waiting)
	if s.cfg.AdminSecondFactor && u.Administrator && (by.AMR == byPassword || by.AMR == byProvider) {
		to = after("") // to set up the second factor
	}

	http.Redirect(w, r, to, http.StatusSeeOther)

	return nil
}

// codeChallenge is the person who must enter a code. It is sealed into the page that prompts
// for the code, and valid until the password changes.
type codeChallenge struct {
	UserID string    `json:"u"`
	At     time.Time `json:"t"`

	proof
}

const (
	challengePurpose = "sign-in-code"
	challengeLife    = 5 * time.Minute
)

func (s *Service) sealChallenge(userID string, by proof) (string, error) {
	text, err := json.Marshal(codeChallenge{userID, time.Now(), by})
	if err != nil {
		return "", err
	}

	sealed, err := s.cfg.Box.Seal(challengePurpose, text)

	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (s *Service) openChallenge(r *http.Request, text string) (user, codeChallenge, error) {
	over := fault(http.StatusUnauthorized, "challenge_expired", "this took too long: sign in again")

	var c codeChallenge

	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > accounts.MaxCredential {
		return user{}, c, over
	}

	plain, err := s.cfg.Box.Open(challengePurpose, sealed)
	if err != nil || json.Unmarshal(plain, &c) != nil || time.Since(c.At) > challengeLife {
		return user{}, c, over
	}

	var hash string

	u, err := s.oneUser(r.Context(), `, u.password_hash FROM identity.users u
		WHERE u.id = $1 AND u.deleted_at IS NULL AND NOT u.disabled`, &hash, c.UserID)
	if _, missing := errors.AsType[*Fault](err); missing || err == nil && subtle.ConstantTimeCompare(accounts.Hash(hash), c.Password) != 1 {
		return user{}, c, over
	}

	return u, c, err
}

// submitCode handles the form of the code page.
func (s *Service) submitCode(w http.ResponseWriter, r *http.Request) error {
	values, err := s.form(w, r)
	if err != nil {
		return s.failPage(w, err)
	}

	view := pages.View{Challenge: values.Get("challenge"), Authorize: waitingRequest(values.Get("authorize"))}

	u, challenge, err := s.openChallenge(r, view.Challenge)
	if status, text, known := pageFault(err); known {
		return s.showSignIn(w, status, pages.View{Error: text, Authorize: view.Authorize})
	}

	if err != nil {
		return err
	}

	if err := s.useCode(r, u.ID, values.Get("code")); err != nil {
		status, text, known := pageFault(err)
		if !known {
			return err
		}

		view.Error = text

		return s.showCode(w, status, view)
	}

	by := challenge.proof
	if by.AMR = byProviderCode; challenge.AMR == byPassword {
		by.AMR = byCode
	}

	if err := s.enter(w, r, u, by, view.Authorize); err != nil {
		return s.failPage(w, err)
	}

	return nil
}

// failPage shows an error as a page.
func (s *Service) failPage(w http.ResponseWriter, err error) error {
	status, text, known := pageFault(err)
	if !known {
		return err
	}

	return s.render(w, status, "failed", pages.View{Title: http.StatusText(status), Narrow: true, Error: text})
}
