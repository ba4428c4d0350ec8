package openid

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/zitadel/oidc/v3/pkg/oidc"

	"everloop/companions/identity/accounts"
)

const (
	ticketPurpose = "openid-consent"
	ticketLife    = 10 * time.Minute // of a consent page; used tickets are stored for an hour
)

var (
	// ErrForeignForm rejects an answer with the form of another request.
	ErrForeignForm = errors.New("the form is not of this request")
	// ErrNoConsent reports that the consent to withdraw does not exist.
	ErrNoConsent = errors.New("no such consent")
)

// Consent is the scopes that a person has granted a client.
type Consent struct {
	ClientID  string    `json:"client_id"`
	Scopes    []string  `json:"scopes"`
	GrantedAt time.Time `json:"granted_at"`
}

// Question is the consent question of a client.
type Question struct {
	User   accounts.User
	Client string
	Site   string   // that the browser returns to
	Scopes []string // of the request

	Everything bool   // the request names no rights: it receives all except administration
	Ticket     string // binds the answer to the request and to the sign-in
}

// ticket binds the form of a consent page to one request of one sign-in. It is valid once.
type ticket struct {
	SessionID string    `json:"s"`
	Request   []byte    `json:"r"` // hash of the parameters
	At        time.Time `json:"t"`
}

// consentRequired returns the error for a client that requests prompt=none.
func consentRequired() *oidc.Error {
	return (&oidc.Error{ErrorType: "consent_required"}).WithDescription("the user has not consented to this request")
}

// Ask returns the question of a request, given as its parameters, that waits for consent; nil
// for other requests, which [AuthorizePath] handles.
func (p *Provider) Ask(r *http.Request, waiting string) (*Question, error) {
	in, b, err := p.waiting(r, waiting)
	if err != nil || in == nil {
		return nil, err
	}

	needed, err := p.needsConsent(r.Context(), b, in)
	if err != nil || !needed {
		return nil, err
	}

	text, err := json.Marshal(ticket{b.sessionID, accounts.Hash(waiting), b.now})
	if err != nil {
		return nil, err
	}

	sealed, err := p.cfg.Box.Seal(ticketPurpose, text)
	if err != nil {
		return nil, err
	}

	return &Question{
		User: b.user, Client: in.ClientID, Site: originOf(in.RedirectURI), Scopes: in.Scopes,
		Everything: slices.Contains(withRights(in.Scopes), everythingElse),
		Ticket:     base64.RawURLEncoding.EncodeToString(sealed),
	}, nil
}

// Answer takes the answer to a question, and returns the URL to redirect the browser to: the
// client's, or [AuthorizePath] with the same request when the question is outdated. The caller
// must have verified that the answer was sent by the page of the question.
func (p *Provider) Answer(r *http.Request, waiting, sealed string, allow bool) (string, error) {
	r = withAddress(r)
	ctx := r.Context()

	t, hash, err := p.openTicket(sealed)
	if err != nil || subtle.ConstantTimeCompare(t.Request, accounts.Hash(waiting)) != 1 {
		return "", ErrForeignForm
	}

	again := AuthorizePath + "?" + waiting

	in, b, err := p.waiting(r, waiting)
	if err != nil || in == nil || b.sessionID != t.SessionID || b.now.Sub(t.At) > ticketLife {
		return again, err
	}

	to := again
	err = pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		used, err := tx.Exec(ctx, `INSERT INTO identity.used_challenges (hash) VALUES ($1) ON CONFLICT DO NOTHING`, hash)
		if err != nil || used.RowsAffected() == 0 {
			return err
		}

		details := addressOf(ctx)
		details["scope"] = strings.Join(in.Scopes, " ")

		if !allow {
			to, err = p.refuse(in, oidc.ErrAccessDenied().WithDescription("the user has refused"))
			return errors.Join(err, accounts.Audit(ctx, tx, b.user.ID, "consent.refuse", in.ClientID, details))
		}

		granted, err := grantConsent(ctx, tx, b.user.ID, in.ClientID, in.Scopes)
		if err != nil || !granted {
			return err
		}

		if err := accounts.Audit(ctx, tx, b.user.ID, "consent.grant", in.ClientID, details); err != nil {
			return err
		}

		code, err := p.issueCode(ctx, tx, b, in)
		if err != nil {
			return err
		}

		to, err = p.answer(in, url.Values{"code": {code}})

		return err
	})

	if _, ended := errors.AsType[*oidc.Error](err); ended { // the sign-in ended in the meantime
		return again, nil
	}

	return to, err
}

// waiting parses a request that may wait for consent; nil for a request that does not, because
// its person must sign in first or it is invalid.
func (p *Provider) waiting(r *http.Request, parameters string) (*request, browser, error) {
	form, err := url.ParseQuery(parameters)
	if err != nil {
		return nil, browser{}, nil
	}

	in, err := p.parse(form)
	if err != nil {
		return nil, browser{}, nil
	}

	b, err := p.examine(r, in)
	if _, refused := errors.AsType[*oidc.Error](err); refused {
		return nil, b, nil
	}

	if err != nil || !b.fits || in.client.FirstParty || slices.Contains(in.Prompt, oidc.PromptNone) {
		return nil, b, err
	}

	return in, b, nil
}

// openTicket opens the ticket of a form, and returns the hash by which its use is recorded.
func (p *Provider) openTicket(text string) (t ticket, hash []byte, err error) {
	if len(text) > accounts.MaxCredential {
		return t, nil, ErrForeignForm
	}

	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, nil, err
	}

	plain, err := p.cfg.Box.Open(ticketPurpose, sealed)
	if err != nil {
		return t, nil, err
	}

	sum := sha256.Sum256(sealed)

	return t, sum[:], json.Unmarshal(plain, &t)
}

// needsConsent reports whether a client needs the person's consent for a code.
func (p *Provider) needsConsent(ctx context.Context, b browser, in *request) (bool, error) {
	if in.client.FirstParty {
		return false, nil
	}

	if slices.Contains(in.Prompt, oidc.PromptConsent) {
		return true, nil
	}

	held, err := p.consented(ctx, p.db, b.user.ID, in.ClientID, in.Scopes)

	return !held, err
}

// consented reports whether a person has consented to all of a client's scopes.
func (p *Provider) consented(ctx context.Context, q accounts.Querier, userID, clientID string, scopes []string) (bool, error) {
	if p.clients[clientID].FirstParty {
		return true, nil
	}

	var scope string

	err := q.QueryRow(ctx, `SELECT scope FROM identity.consents WHERE user_id = $1 AND client_id = $2`, userID, clientID).Scan(&scope)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	granted := withRights(strings.Fields(scope))

	return err == nil && !slices.ContainsFunc(withRights(scopes), func(s string) bool { return !slices.Contains(granted, s) }), err
}

// grantConsent adds scopes to a person's consent for a client; false when the account was
// deleted or disabled.
func grantConsent(ctx context.Context, tx pgx.Tx, userID, clientID string, scopes []string) (bool, error) {
	alive, err := lockUser(ctx, tx, userID)
	if err != nil || !alive {
		return false, err
	}

	var before string

	err = tx.QueryRow(ctx, `SELECT scope FROM identity.consents WHERE user_id = $1 AND client_id = $2`, userID, clientID).Scan(&before)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, err
	}

	all := withRights(scopes)
	if before != "" {
		all = slices.Concat(withRights(strings.Fields(before)), all)
	}

	slices.Sort(all)

	_, err = tx.Exec(ctx, `
		INSERT INTO identity.consents (user_id, client_id, scope) VALUES ($1, $2, $3)
		ON CONFLICT (user_id, client_id) DO UPDATE SET scope = excluded.scope, granted_at = now()`,
		userID, clientID, strings.Join(slices.Compact(all), " "))

	return err == nil, err
}

// lockUser serializes changes of a person's consents with sign-ins of clients and the end of
// the account; false when the account has ended.
func lockUser(ctx context.Context, tx pgx.Tx, userID string) (alive bool, err error) {
	err = tx.QueryRow(ctx, `SELECT deleted_at IS NULL AND NOT disabled FROM identity.users WHERE id = $1 FOR UPDATE`, userID).Scan(&alive)
	return alive, err
}

// asking returns the clients that require consent.
func (p *Provider) asking() []string {
	out := []string{}

	for id := range maps.Keys(p.clients) {
		if !p.clients[id].FirstParty {
			out = append(out, id)
		}
	}

	return out
}

// Consents lists a person's consents to configured clients.
func (p *Provider) Consents(ctx context.Context, userID string) ([]Consent, error) {
	rows, _ := p.db.Query(ctx, `
		SELECT client_id, array_remove(string_to_array(scope, ' '), 'everloop'), granted_at FROM identity.consents
		WHERE  user_id = $1 AND client_id = ANY ($2) ORDER BY client_id`, userID, p.asking())
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Consent])

	return append([]Consent{}, found...), err
}

// Withdraw deletes a consent, and ends the client's sessions of the person. Unexchanged codes
// of the client are invalid without it.
func (p *Provider) Withdraw(r *http.Request, userID, clientID string) error {
	ctx := withAddress(r).Context()

	return pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		if _, err := lockUser(ctx, tx, userID); err != nil {
			return err
		}

		removed, err := tx.Exec(ctx, `DELETE FROM identity.consents WHERE user_id = $1 AND client_id = $2`, userID, clientID)
		if err != nil {
			return err
		}

		if removed.RowsAffected() == 0 {
			return ErrNoConsent
		}

		_, err = tx.Exec(ctx, `
			UPDATE identity.sessions SET ended_at = now(), ended_by = 'consent withdrawn'
			WHERE  user_id = $1 AND client_id = $2 AND ended_at IS NULL`, userID, clientID)
		if err != nil {
			return err
		}

		return accounts.Audit(ctx, tx, userID, "consent.withdraw", clientID, addressOf(ctx))
	})
}

// Clean deletes consents to clients that are no longer configured, so that a later client with
// the same id needs consent again.
func (p *Provider) Clean(ctx context.Context) error {
	_, err := p.db.Exec(ctx, `
		DELETE FROM identity.consents WHERE (user_id, client_id) IN (
			SELECT user_id, client_id FROM identity.consents WHERE client_id <> ALL ($1) LIMIT 5000)`, p.asking())

	return err
}
