package terminal

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// FindKey gives the API key to use: the one given, else that of the first
// administrator, which the service keeps in its data directory. The latter is
// only for a service on this machine: it is never sent anywhere else unasked.
func FindKey(given, dataDir, base string) (string, error) {
	if key := strings.TrimSpace(given); key != "" {
		return key, nil
	}

	const ask = "give an API key with --key or EVERLOOP_API_KEY"
	if !local(base) {
		return "", &Fault{Code: ExitTrouble, Message: ask + ": the key of this machine's own service is not sent to another one"}
	}

	path := filepath.Join(dataDir, "bootstrap-key")
	content, err := os.ReadFile(path)

	key := strings.TrimSpace(string(content))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", &Fault{Code: ExitTrouble, Message: ask + ": there is no key in " + path + " (DATA_DIR says where the service keeps it)"}
	case err != nil:
		return "", &Fault{Code: ExitTrouble, Message: ask + ": the first key cannot be read (" + err.Error() + ")"}
	case key == "":
		return "", &Fault{Code: ExitTrouble, Message: ask + ": " + path + " is empty"}
	}

	return key, nil
}

// local reports whether the address is of this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}

	ip := net.ParseIP(u.Hostname())

	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
