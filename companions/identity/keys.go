package identity

import (
	"net/http"

	"everloop/companions/identity/accounts"
)

// rotateNow replaces the signing key immediately, for a key that may be compromised.
func (s *Service) rotateNow(w http.ResponseWriter, r *http.Request) error {
	c, err := s.administrator(r)
	if err != nil {
		return err
	}

	if err := s.keys.Rotate(r.Context(), 0); err != nil {
		return err
	}

	return noContent(w, accounts.Audit(r.Context(), s.db, c.actor(), "key.rotate", "", nil))
}

// showKeySet is the JWKS.
func (s *Service) showKeySet(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*")

	set, err := s.keys.Set(r.Context())
	if err != nil {
		return err
	}

	answer(w, http.StatusOK, set)

	return nil
}
