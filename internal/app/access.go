package app

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"go.temporal.io/sdk/client"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/embedded"
	"everloop/infra/secrets"
	"everloop/internal/hosts"
)

// hostSettings name the hosts that listeners answer.
type hostSettings struct {
	AllowedHosts []string `env:"ALLOWED_HOSTS" help:"Host names by which clients reach this service besides localhost, IP addresses and names without a dot, such as everloop.example.org or *.example.org; * allows all, behind a proxy that checks them."`
}

// allowed gives the names as a list that checks them. An empty entry, as container
// managers make one of a variable that is not set, is none.
func (s hostSettings) allowed() hosts.List {
	return slices.DeleteFunc(slices.Clone(hosts.List(s.AllowedHosts)), func(name string) bool { return name == "" })
}

func (s hostSettings) check() error {
	if err := s.allowed().Check(); err != nil {
		return fmt.Errorf("ALLOWED_HOSTS: %w", err)
	}

	return nil
}

// keySettings say where the keys are that the roles of one deployment share.
type keySettings struct {
	KeyDir string `env:"KEY_DIR" type:"path" help:"Directory of encryption-key and temporal-key, which the roles of one deployment share; DATA_DIR when unset."`
}

// privateDirs are the directories that no command of an agent may see.
func (s keySettings) privateDirs(dataDir string) []string {
	if s.KeyDir == "" {
		return []string{dataDir}
	}

	return []string{dataDir, s.KeyDir}
}

// keyFile names the file of a key.
func (s keySettings) keyFile(dataDir, name string) (string, error) {
	dir := s.KeyDir
	if dir == "" {
		dir = dataDir
	}

	return filepath.Abs(filepath.Join(dir, name))
}

// temporalKeyFile holds the key by which the roles of other processes reach the
// Temporal of the temporal role.
const temporalKeyFile = "temporal-key"

// minTemporalKey is the least length of a key for Temporal that an operator sets.
const minTemporalKey = 32

// serviceKey gives the key that the temporal role accepts from other roles: the one of
// the environment, or one that it keeps.
func (s keySettings) serviceKey(dataDir, given string) (string, error) {
	if given != "" {
		if len(given) < minTemporalKey {
			return "", fmt.Errorf("TEMPORAL_API_KEY must have at least %d characters", minTemporalKey)
		}

		return given, nil
	}

	file, err := s.keyFile(dataDir, temporalKeyFile)
	if err != nil {
		return "", err
	}

	key, err := secrets.KeyFile(file)
	if err != nil {
		return "", fmt.Errorf("key for Temporal: %w", err)
	}

	return strings.TrimSpace(key), nil
}

// ownTemporal completes the options of a client for the temporal role of this
// deployment: they carry its key where there is one and no other credential is set.
func (s keySettings) ownTemporal(dataDir string, options client.Options) (client.Options, error) {
	if options.Credentials != nil || options.ConnectionOptions.TLS != nil {
		return options, nil
	}

	file, err := s.keyFile(dataDir, temporalKeyFile)
	if err != nil {
		return options, err
	}

	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return options, nil
	}

	if err != nil {
		return options, fmt.Errorf("key for Temporal: %w", err)
	}

	options.Credentials = client.NewAPIKeyStaticCredentials(strings.TrimSpace(string(key)))
	options.ConnectionOptions.TLSDisabled = true // the library takes a key for a wish to use TLS

	return options, nil
}

// administrators verifies API keys for Temporal. Engines start before the database is
// migrated: until the authenticator is set, no key is accepted.
type administrators struct {
	authenticator atomic.Pointer[auth.Authenticator]
}

var errNotReady = errors.New("the service is still starting")

// Administrator implements embedded.Administrators.
func (a *administrators) Administrator(ctx context.Context, key string) (string, error) {
	authenticator := a.authenticator.Load()
	if authenticator == nil {
		return "", errNotReady
	}
	// Temporal does not say who calls: all its clients share one allowance of guesses.
	caller, err := authenticator.AuthenticateFrom(ctx, auth.From{Network: "temporal"}, auth.Credentials{Bearer: key})
	if err != nil {
		if domain.AsError(err).Kind == domain.Unauthenticated {
			return "", embedded.ErrNoAdministrator
		}

		return "", err
	}

	if !caller.User.Administrator || !auth.Allows(caller, auth.Admin) {
		return "", embedded.ErrNoAdministrator
	}

	return caller.User.Username, nil
}

// publishedKey stood in a published file as an example: it is public.
const publishedKey = "dev-only-key-of-at-least-32-characters"

// checkPublished rejects a public key, where other machines can connect.
func checkPublished(key, addr string) error {
	if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(key)), []byte(publishedKey)) == 0 || loopbackOnly(addr) {
		return nil
	}

	return errors.New("ENCRYPTION_KEY is the published example: set one of your own, or leave it unset and one is made")
}

// loopbackOnly reports whether only programs of this machine can connect.
func loopbackOnly(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}

	if host == "localhost" {
		return true
	}

	ip, err := netip.ParseAddr(host)

	return err == nil && ip.Unmap().IsLoopback()
}
