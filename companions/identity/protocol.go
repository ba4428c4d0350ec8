package identity

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"everloop/companions/edge"
	"everloop/companions/identity/openid"
	"everloop/internal/clients"
)

// protocol passes a request to the library. Failures at endpoints that take secrets count as
// guesses of the client's address.
func (s *Service) protocol(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)

	watched := &statusWriter{ResponseWriter: w}
	if r.Method != http.MethodPost || r.URL.Path != openid.TokenPath && r.URL.Path != openid.RevokePath {
		s.protocols.ServeHTTP(watched, r)
		return nil
	}

	if r.URL.RawQuery != "" { // proxies would log it
		return refuseGrant(w, http.StatusBadRequest, "invalid_request", "send the parameters in the body, not in the address")
	}

	allowances := []allowance{{"token " + clients.Network(edge.Client(r)).String(), s.cfg.AddressGuesses, time.Minute}}

	err := s.spendGuess(r.Context(), allowances)
	if f, refused := errors.AsType[*Fault](err); refused {
		w.Header().Set("Retry-After", seconds(f.RetryAfter))
		return refuseGrant(w, f.Status, "temporarily_unavailable", "too many wrong codes and tokens, retry later")
	}

	if err != nil {
		return err
	}

	s.protocols.ServeHTTP(watched, r)

	if watched.status >= 400 && watched.status < 500 {
		return nil
	}

	if err := s.returnGuess(context.WithoutCancel(r.Context()), allowances); err != nil {
		s.log.Warn("failed to restore a guess", "error", err) // the response is already sent
	}

	return nil
}

// refuseGrant writes an error in the format of OAuth.
func refuseGrant(w http.ResponseWriter, status int, code, description string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	return json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}

// statusWriter records the status of a response, and adds the scheme to a 401.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}

	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
