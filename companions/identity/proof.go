package identity

import (
	"context"
	"crypto/subtle"
	"net/http"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
	"everloop/companions/identity/accounts"
)

// proof is how a person has authenticated, and by which credential. The credential may be
// replaced or removed between its check and the start of the session, which therefore verifies
// that it still exists.
type proof struct {
	AMR      string `json:"a"`           // value for ID tokens
	Password []byte `json:"p,omitempty"` // hash of the password's hash at the check; nil: any
	Passkey  []byte `json:"k,omitempty"` // id of the credential
	Issuer   string `json:"i,omitempty"` // of the linked account
	Subject  string `json:"s,omitempty"`
}

// check rejects a proof whose credential was replaced or removed. The caller must hold the lock
// of the user, which serializes this with changes of the credential; hash is the password's
// hash.
func (p proof) check(ctx context.Context, tx pgx.Tx, userID, hash string) error {
	if p.Password != nil && subtle.ConstantTimeCompare(accounts.Hash(hash), p.Password) != 1 {
		return unauthorized()
	}

	if p.Passkey != nil {
		// Passkeys are removed without the lock of the user, so the row is locked.
		tag, err := tx.Exec(ctx, `SELECT 1 FROM identity.passkeys WHERE credential_id = $1 AND user_id = $2 FOR KEY SHARE`,
			p.Passkey, userID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return passkeyRefused()
		}
	}

	if p.Issuer != "" {
		tag, err := tx.Exec(ctx, `SELECT 1 FROM identity.external_accounts WHERE issuer = $1 AND subject = $2 AND user_id = $3`,
			p.Issuer, p.Subject, userID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return unauthorized()
		}
	}

	return nil
}

// auditRefused records a sign-in that was rejected after its credential was accepted.
func (s *Service) auditRefused(r *http.Request, u user, p proof) error {
	details := map[string]string{"address": edge.Client(r).String(), "by": p.AMR, "reason": "changed meanwhile"}

	return accounts.Audit(r.Context(), s.db, u.ID, "auth.refused", u.ID, details)
}
