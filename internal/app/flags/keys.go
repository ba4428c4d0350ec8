package flags

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"everloop/infra/secrets"
)

// Keys say where the keys are that the roles of one deployment share.
type Keys struct {
	KeyDir string `env:"KEY_DIR" type:"path" help:"Directory of encryption-key and temporal-key, which the roles of one deployment share; DATA_DIR when unset."`
}

// PrivateDirs returns the directories that no command of an agent may see.
func (s Keys) PrivateDirs(dataDir string) []string {
	if s.KeyDir == "" {
		return []string{dataDir}
	}

	return []string{dataDir, s.KeyDir}
}

// KeyFile names the file of a key.
func (s Keys) KeyFile(dataDir, name string) (string, error) {
	dir := s.KeyDir
	if dir == "" {
		dir = dataDir
	}

	return filepath.Abs(filepath.Join(dir, name))
}

// EncryptionKeyFile is the name of the key of values at rest, in KEY_DIR and in backups.
const EncryptionKeyFile = "encryption-key"

// SecretBox seals values with the key that ENCRYPTION_KEY gives, or, without one, with
// the key that is kept in KEY_DIR.
func (s Keys) SecretBox(dataDir, given string) (*secrets.Box, error) {
	key := given
	if key == "" {
		file, err := s.KeyFile(dataDir, EncryptionKeyFile)
		if err != nil {
			return nil, err
		}

		kept, err := secrets.KeyFile(file)
		if err != nil {
			return nil, fmt.Errorf("encryption key: %w", err)
		}

		key = kept
	}

	box, err := secrets.NewBox(key)
	if err != nil {
		return nil, fmt.Errorf("ENCRYPTION_KEY: %w", err)
	}

	return box, nil
}

// publishedKey stood in a published file as an example: it is public.
const publishedKey = "dev-only-key-of-at-least-32-characters"

// CheckPublished rejects a public key, where other machines can connect.
func CheckPublished(key, addr string) error {
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
