package terminal

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// FindKey returns the API key to use: the given one, or else the first administrator's key in
// the data directory of a service on this machine. It never returns the latter for another
// machine.
func FindKey(given, dataDir, base string) (string, error) {
	if key := strings.TrimSpace(given); key != "" {
		return key, nil
	}

	const required = "API key is required (--key or EVERLOOP_API_KEY): "
	if !local(base) {
		return "", usageError(required + "the key of this machine's service is not sent to another machine")
	}

	path := filepath.Join(dataDir, "bootstrap-key")
	content, err := os.ReadFile(path)
	key := strings.TrimSpace(string(content))

	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", usageError(required + path + " does not exist (DATA_DIR is the service's data directory)")
	case err != nil:
		return "", usageError(required + "failed to read the first key: " + err.Error())
	case key == "":
		return "", usageError(required + path + " is empty")
	}

	return key, nil
}

// local reports whether an address is on this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
