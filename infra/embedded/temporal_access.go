package embedded

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"strings"

	"go.temporal.io/server/common/authorization"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Administrators looks up the API keys that grant access to Temporal.
type Administrators interface {
	// Administrator returns the name of the administrator with this API key, or
	// ErrNoAdministrator. Another error reports that keys cannot be checked now.
	Administrator(ctx context.Context, key string) (name string, err error)
}

// ErrNoAdministrator reports that a key does not belong to an administrator.
var ErrNoAdministrator = errors.New("this is not an administrator's API key")

// serviceName is the caller of requests with the service key.
const serviceName = "everloop"

// temporalAccess authorizes each request to the server. Clients inside the process are allowed
// everything; a client of the port needs an API key as bearer token.
type temporalAccess struct {
	administrators Administrators // nil: none
	serviceKey     string         // empty: none
	logger         *slog.Logger
}

var _ authorization.Authorizer = temporalAccess{}

// Authorize implements authorization.Authorizer.
func (a temporalAccess) Authorize(ctx context.Context, _ *authorization.Claims, _ *authorization.CallTarget) (authorization.Result, error) {
	if p, ok := peer.FromContext(ctx); ok && insideProcess(p.Addr) {
		return authorization.Result{Decision: authorization.DecisionAllow}, nil
	}

	if _, err := a.caller(ctx, bearer(ctx)); err != nil {
		return authorization.Result{Decision: authorization.DecisionDeny, Reason: err.Error()}, nil
	}

	return authorization.Result{Decision: authorization.DecisionAllow}, nil
}

// caller returns the administrator of a key.
func (a temporalAccess) caller(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", errors.New("an administrator's API key is needed, as a bearer token")
	}

	if a.serviceKey != "" && equalSecrets(key, a.serviceKey) {
		return serviceName, nil
	}

	if a.administrators == nil {
		return "", ErrNoAdministrator
	}

	name, err := a.administrators.Administrator(ctx, key)
	if err != nil && !errors.Is(err, ErrNoAdministrator) {
		a.logger.Warn("failed to check an API key for Temporal", "error", err)
		return "", errors.New("API keys cannot be checked now: try again later")
	}

	return name, err
}

// bearer returns the token of a call over the port.
func bearer(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return ""
	}

	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}

// equalSecrets compares in constant time, independent of values and lengths.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
