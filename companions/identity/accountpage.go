package identity

import (
	"context"
	"errors"
	"html/template"
	"net/http"

	"everloop/companions/identity/pages"
)

// notices are the texts of the account page after a change.
var notices = map[string]string{
	"password": "The password was changed. All other sessions have ended.",
	"session":  "The session has ended.",
	"others":   "All other sessions have ended.",
	"totp":     "The authenticator app was removed.",
	"passkey":  "The passkeys were changed.",
	"link":     "The link was changed.",
	"consent":  "The client may act for you no longer: its sessions have ended.",
}

// visit calls handle for the person of a browser's session, and redirects others to the sign-in
// page. A Fault is shown on the account page.
func (s *Service) visit(handle pageHandler) func(http.ResponseWriter, *http.Request) error {
	return s.visitAs(s.person, handle)
}

// visitSettingUp is visit, also for administrators without their required second factor.
func (s *Service) visitSettingUp(handle pageHandler) func(http.ResponseWriter, *http.Request) error {
	return s.visitAs(s.settingUp, handle)
}

type pageHandler func(w http.ResponseWriter, r *http.Request, c caller) error

func (s *Service) visitAs(
	who func(*http.Request) (caller, error), handle pageHandler,
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPost {
			if _, err := s.form(w, r); err != nil {
				return s.failPage(w, err)
			}
		}

		c, err := who(r)
		if f, refused := errors.AsType[*Fault](err); refused && f.Status == http.StatusUnauthorized {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		}

		if err != nil {
			return s.failPage(w, err)
		}

		err = handle(w, r, c)
		if status, text, known := pageFault(err); known {
			return s.showAccount(w, r, c, status, pages.View{Error: text})
		}

		return err
	}
}

// done redirects to the account page with a notice.
func done(w http.ResponseWriter, r *http.Request, what string) error {
	http.Redirect(w, r, "/account?done="+what, http.StatusSeeOther)
	return nil
}

// accountPage shows the person's account.
func (s *Service) accountPage(w http.ResponseWriter, r *http.Request, c caller) error {
	return s.showAccount(w, r, c, http.StatusOK, pages.View{Notice: notices[r.URL.Query().Get("done")]})
}

func (s *Service) showAccount(w http.ResponseWriter, r *http.Request, c caller, status int, v pages.View) error {
	ctx := r.Context()

	v.Title, v.Username, v.Name, v.SetUpFirst = "Your account", c.user.Username, c.user.Name, c.unproven

	err := s.db.QueryRow(ctx, `SELECT password_hash <> '' FROM identity.users WHERE id = $1`, c.user.ID).Scan(&v.HasPassword)
	if err != nil {
		return err
	}

	if c.unproven {
		return errors.Join(s.showPasskeys(ctx, c, &v), s.render(w, status, "account", v))
	}

	open, err := s.sessionsOf(ctx, c.user.ID, c.sessionID)
	if err != nil {
		return err
	}

	for _, one := range open {
		v.Sessions = append(v.Sessions, pages.Session{
			ID: one.ID, Device: one.Device, Address: one.Address, CreatedAt: one.CreatedAt, LastUsed: one.LastUsed, Current: one.Current,
		})
	}

	state, err := s.totpOf(ctx, c.user.ID)
	if err != nil {
		return err
	}

	v.TOTP, v.RecoveryLeft = state.Enabled, state.RecoveryCodes

	if err := errors.Join(s.showPasskeys(ctx, c, &v), s.showLinks(ctx, c, &v), s.showConsents(ctx, c, &v)); err != nil {
		return err
	}

	return s.render(w, status, "account", v)
}

// showPasskeys adds the person's passkeys to the page.
func (s *Service) showPasskeys(ctx context.Context, c caller, v *pages.View) error {
	v.PasskeysOffered = s.passkeys != nil
	if !v.PasskeysOffered {
		return nil
	}

	found, err := s.passkeysOf(ctx, c.user.ID)

	for _, one := range found {
		v.Passkeys = append(v.Passkeys, pages.Passkey(one))
	}

	return err
}

// showLinks adds the person's links to the page.
func (s *Service) showLinks(ctx context.Context, c caller, v *pages.View) error {
	v.Providers = s.providers()

	found, err := s.linksOf(ctx, c.user.ID)

	for _, one := range found {
		v.Linked = append(v.Linked, pages.Link{ID: one.ID, Provider: one.Provider, Email: one.Email, CreatedAt: one.CreatedAt})
	}

	return err
}

// submitSignOut ends the session of the browser, or all of the person's.
func (s *Service) submitSignOut(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := s.signOut(r.Context(), c, r.PostForm.Get("everywhere") != ""); err != nil {
		return err
	}

	s.clearCookies(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)

	return nil
}

// submitSessions ends one session, or all others.
func (s *Service) submitSessions(w http.ResponseWriter, r *http.Request, c caller) error {
	if r.PostForm.Get("others") != "" {
		if err := s.endOthers(r.Context(), c); err != nil {
			return err
		}

		return done(w, r, "others")
	}

	if err := s.endSessionOf(r.Context(), c, c.user.ID, r.PostForm.Get("id")); err != nil {
		return err
	}

	return done(w, r, "session")
}

// submitPassword changes the password.
func (s *Service) submitPassword(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := s.replacePassword(r, c, r.PostForm.Get("current"), r.PostForm.Get("new")); err != nil {
		return err
	}

	return done(w, r, "password")
}

// submitTOTP shows the secret of a new authenticator app.
func (s *Service) submitTOTP(w http.ResponseWriter, r *http.Request, c caller) error {
	key, err := s.beginTOTP(r, c, r.PostForm.Get("password"))
	if err != nil {
		return err
	}

	svg, err := key.SVG()
	if err != nil {
		return err
	}

	return s.render(w, http.StatusOK, "totp", pages.View{
		Title: "Set up an authenticator app", Narrow: true, Secret: key.Secret,
		QR: template.HTML(svg), //nolint:gosec // numbers only, made by this service
	})
}

// submitTOTPCode turns the second factor on and shows the recovery codes.
func (s *Service) submitTOTPCode(w http.ResponseWriter, r *http.Request, c caller) error {
	codes, err := s.finishTOTP(r, c, r.PostForm.Get("code"))
	if f, known := errors.AsType[*Fault](err); known && (f.Code == "code_refused" || f.Code == "invalid_request") {
		return s.render(w, f.Status, "totp", pages.View{
			Title: "Set up an authenticator app", Narrow: true, Error: "This code is wrong. Enter the one that the app shows now.",
		})
	}

	if err != nil {
		return err
	}

	return s.render(w, http.StatusOK, "recovery", pages.View{Title: "Recovery codes", Narrow: true, RecoveryCodes: codes})
}

// submitTOTPRemoval removes the second factor.
func (s *Service) submitTOTPRemoval(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := s.endTOTP(r, c, r.PostForm.Get("password"), r.PostForm.Get("code")); err != nil {
		return err
	}

	return done(w, r, "totp")
}
