package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/companions/identity/accounts"
)

// sessionView is an open session as its user sees it.
type sessionView struct {
	ID        string    `json:"id"`
	Client    string    `json:"client_id"` // of the OpenID provider; "" for a sign-in
	Device    string    `json:"device"`    // browser and system, as the user agent names them; of a client its id
	Address   string    `json:"address"`   // of the sign-in
	UserAgent string    `json:"user_agent"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at"` // at this service, to the minute
	ExpiresAt time.Time `json:"expires_at"`
	Current   bool      `json:"current"`
}

// sessionsOf lists the open sessions of a user, the last used first.
func (s *Service) sessionsOf(ctx context.Context, userID, current string) ([]sessionView, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT s.id, s.client_id, '', s.address, s.user_agent, s.created_at, s.last_used_at, s.expires_at, s.id = $2
		FROM   identity.sessions s WHERE s.user_id = $1 AND s.ended_at IS NULL AND s.expires_at > now()
		ORDER  BY s.last_used_at DESC, s.id DESC LIMIT $3`, userID, current, maxSessions+accounts.MaxClientSessions)

	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sessionView])
	for i := range open {
		if open[i].Device = open[i].Client; open[i].Client == "" {
			open[i].Device = device(open[i].UserAgent)
		}
	}

	return append([]sessionView{}, open...), err
}

// device returns browser and system of a user agent for display; it is not verified.
func device(userAgent string) string {
	first := func(names ...[2]string) string {
		for _, n := range names {
			if strings.Contains(userAgent, n[0]) {
				return n[1]
			}
		}

		return ""
	}
	// Browsers also contain the names of others in their user agent: the order matters.
	browser := first(
		[2]string{"Edg/", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"Firefox/", "Firefox"}, [2]string{"Chrome/", "Chrome"},
		[2]string{"Safari/", "Safari"},
	)
	system := first(
		[2]string{"Android", "Android"}, [2]string{"iPhone", "iOS"}, [2]string{"iPad", "iPadOS"}, [2]string{"Windows", "Windows"},
		[2]string{"Mac OS X", "macOS"}, [2]string{"Linux", "Linux"},
	)

	switch {
	case browser != "" && system != "":
		return browser + " on " + system
	case browser != "":
		return browser
	}

	program, _, _ := strings.Cut(userAgent, "/")
	if program, _, _ = strings.Cut(program, " "); program != "" {
		return program
	}

	return "unknown"
}

// listSessions lists the caller's open sessions.
func (s *Service) listSessions(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	open, err := s.sessionsOf(r.Context(), c.user.ID, c.sessionID)
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": open})

	return nil
}

// endOwnSession ends one of the caller's sessions.
func (s *Service) endOwnSession(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	id := r.PathValue("id")
	if err := s.endSessionOf(r.Context(), c, c.user.ID, id); err != nil {
		return err
	}

	if id == c.sessionID {
		s.clearCookies(w, r)
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}

// endSessionOf ends one session of a user.
func (s *Service) endSessionOf(ctx context.Context, c caller, userID, id string) error {
	missing := fault(http.StatusNotFound, "session_not_found", "this session does not exist, or has ended")
	if len(sane([]string{id, userID})) != 2 {
		return missing
	}

	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var found string

		err := tx.QueryRow(ctx, `
			SELECT id FROM identity.sessions WHERE id = $1 AND user_id = $2 AND ended_at IS NULL AND expires_at > now() FOR UPDATE`,
			id, userID).Scan(&found)
		if errors.Is(err, pgx.ErrNoRows) {
			return missing
		}

		if err != nil {
			return err
		}

		if err := accounts.EndSession(ctx, tx, id, "ended by the user or an administrator"); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.actor(), "session.end", id, map[string]string{"user": userID})
	})
}

// endOtherSessions ends all of the caller's sessions except the session of the request and the
// client sessions below it, and the personal tokens.
func (s *Service) endOtherSessions(w http.ResponseWriter, r *http.Request) error {
	c, err := s.person(r)
	if err != nil {
		return err
	}

	if c.sessionID == "" {
		return fault(http.StatusConflict, "no_session",
			"a personal token is not a session: POST /api/v1/auth/logout with everywhere ends all sessions")
	}

	return noContent(w, s.endOthers(r.Context(), c))
}

func (s *Service) endOthers(ctx context.Context, c caller) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE identity.sessions SET ended_at = now(), ended_by = 'others ended'
			WHERE  user_id = $1 AND id <> $2 AND parent_id IS DISTINCT FROM $2 AND ended_at IS NULL`, c.user.ID, c.sessionID)
		if err != nil {
			return err
		}

		if err := revokeTokens(ctx, tx, c.user.ID); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.actor(), "session.end_others", c.user.ID, nil)
	})
}

// listUserSessions lists the open sessions of a user, for administrators.
func (s *Service) listUserSessions(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	shown, err := s.account(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	open, err := s.sessionsOf(r.Context(), shown.ID, c.sessionID)
	if err != nil {
		return err
	}

	if err := accounts.Audit(r.Context(), s.db, c.actor(), "session.list", shown.ID, nil); err != nil {
		return err
	}

	answer(w, http.StatusOK, map[string]any{"items": open})

	return nil
}

// endUserSession ends one session of a user, for administrators.
func (s *Service) endUserSession(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	return noContent(w, s.endSessionOf(r.Context(), c, r.PathValue("id"), r.PathValue("session")))
}

// endUserSessions ends all sessions and personal tokens of a user, for administrators.
func (s *Service) endUserSessions(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	ctx := r.Context()

	return noContent(w, s.changeAccount(ctx, r.PathValue("id"), func(tx pgx.Tx, u user, _ bool) error {
		if err := closeAccess(ctx, tx, u.ID, "ended by an administrator"); err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, c.actor(), "session.end_all", u.ID, nil)
	}))
}
