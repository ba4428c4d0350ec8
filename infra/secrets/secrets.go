// Package secrets encrypts values at rest, such as environment buckets. It depends on keys and
// bytes only.
package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// minKey is the minimum length of a configured key, in bytes.
const minKey = 32

// ErrUnreadable reports that a value was sealed with another key or for another purpose, or was
// changed.
var ErrUnreadable = errors.New("the value was sealed with another key")

// Box seals and opens values with AES-256-GCM.
type Box struct{ aead cipher.AEAD }

// NewBox returns a Box with a key of at least 32 bytes, in any text form.
func NewBox(key string) (*Box, error) {
	if key = strings.TrimSpace(key); len(key) < minKey {
		return nil, fmt.Errorf("the encryption key holds %d characters, at least %d are needed", len(key), minKey)
	}

	derived, err := hkdf.Key(sha256.New, []byte(key), nil, "everloop secrets v1", 32)
	if err != nil {
		return nil, err
	}

	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}

	aead, err := cipher.NewGCM(block)

	return &Box{aead}, err
}

// KeyFile returns the key in a file, which it creates with mode 0600 when missing.
func KeyFile(path string) (string, error) {
	kept, err := os.ReadFile(path)
	if err == nil {
		return string(kept), nil
	}

	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}

	key := base64.RawURLEncoding.EncodeToString(random)

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}

	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())

	_, err = f.WriteString(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	// The link appears with its whole content, or not at all.
	err = os.Link(f.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return KeyFile(path) // another process was faster
	}

	return key, err
}

// Seal encrypts a value for one purpose; Open needs the same purpose.
func (b *Box) Seal(purpose string, value []byte) ([]byte, error) {
	nonce := make([]byte, b.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}

	return b.aead.Seal(nonce, nonce, value, []byte(purpose)), nil
}

// Open decrypts a sealed value, or returns ErrUnreadable.
func (b *Box) Open(purpose string, sealed []byte) ([]byte, error) {
	size := b.aead.NonceSize()
	if len(sealed) < size {
		return nil, ErrUnreadable
	}

	value, err := b.aead.Open(nil, sealed[:size], sealed[size:], []byte(purpose))
	if err != nil {
		return nil, ErrUnreadable
	}

	return value, nil
}
