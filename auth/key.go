package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"everloop/domain"
)

const (
	keyPrefix    = "el_"
	keyDigits    = 32 // base 62: 190 random bits
	maxKeyLength = 512
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewKey returns a new API key for a user: the plaintext, which is shown once, and the stored
// hash.
func NewKey(userID, name string) (key domain.APIKey, plaintext string, hash [32]byte) {
	plaintext = newPlaintext()
	return keep(plaintext, userID, name), plaintext, Hash(plaintext)
}

func keep(plaintext, userID, name string) domain.APIKey {
	return domain.APIKey{ID: domain.NewID(), UserID: userID, Name: name, Masked: mask(plaintext), Scopes: []string{}}
}

func newPlaintext() string {
	var b strings.Builder
	b.WriteString(keyPrefix)

	var random [64]byte
	for b.Len() < len(keyPrefix)+keyDigits {
		_, _ = rand.Read(random[:]) // never fails
		for _, r := range random {
			// Bytes above the largest multiple of 62 would favour some digits.
			if r < 4*62 && b.Len() < len(keyPrefix)+keyDigits {
				b.WriteByte(base62[r%62])
			}
		}
	}

	return b.String()
}

// Hash returns the only stored form of a key. A key has too many random bits to be guessed, so
// a plain SHA-256 protects it; looking it up by its hash is safe against timing attacks.
func Hash(plaintext string) [32]byte { return sha256.Sum256([]byte(plaintext)) }

// mask returns enough of a key to distinguish it from others. An operator's own key may be too
// short for that: then it returns none of it.
func mask(plaintext string) string {
	if len(plaintext) < 20 {
		return "******...****"
	}

	return plaintext[:6] + "..." + plaintext[len(plaintext)-4:]
}

func hasKeyPrefix(token string) bool { return strings.HasPrefix(token, keyPrefix) }
