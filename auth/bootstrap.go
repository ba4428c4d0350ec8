package auth

import (
	"context"
	"strings"
	"unicode"

	"everloop/domain"
)

// EnsureBootstrap creates the first administrator of the service, the user `admin`.
//
// A given key (BOOTSTRAP_API_KEY) becomes their key: it is set at every start, and a changed
// key replaces the previous one. Without a key, one is created at the very first start, when
// there is no user yet; plaintext is non-empty only then. made reports that the key was stored
// now. Several processes can start concurrently.
func (a *Authenticator) EnsureBootstrap(ctx context.Context, key string) (made bool, plaintext string, err error) {
	given := key != ""
	if !given {
		key = newPlaintext()
	} else if err := CheckBootstrapKey(key); err != nil {
		return false, "", err
	}

	admin := domain.User{ID: domain.NewID(), Username: "admin", Name: "Administrator", Administrator: true}
	hash := Hash(key)

	made, err = a.keys.EnsureBootstrap(ctx, admin, keep(key, admin.ID, "bootstrap"), hash[:], given)
	if err != nil || !made {
		return false, "", err
	}

	a.cache.forget(func(domain.Caller) bool { return true })

	if given {
		return true, "", nil
	}

	return true, key, nil
}

// minGivenKey is the minimum length of an operator's key, in characters.
const minGivenKey = 16

// CheckBootstrapKey returns an error for an invalid operator's key: one that could be guessed,
// or could not be sent in a header. Its message never contains the key.
func CheckBootstrapKey(key string) error {
	if len(key) < minGivenKey || len(key) > maxKeyLength {
		return domain.Invalidf("BOOTSTRAP_API_KEY", "must have %d to %d characters, as openssl rand -hex 24 makes them",
			minGivenKey, maxKeyLength)
	}

	if strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }) {
		return domain.Invalidf("BOOTSTRAP_API_KEY", "must be printable ASCII without spaces")
	}

	return nil
}
