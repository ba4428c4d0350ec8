package external

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"everloop/domain"
)

// NATS says how to reach a NATS server: its addresses, a file of credentials or of
// an nkey's seed, the CA of its certificate and a certificate of the client. A user
// with a password, or a token, is part of the URL.
type NATS struct {
	URL                                 string
	Creds, NKey, CAFile, Cert, CertsKey string // paths of files; empty: not used
}

// Options gives the options of the connection. Errors name every wrong setting and
// hold no secret.
func (n NATS) Options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name("everloop"), nats.MaxReconnects(-1)}

	faults := []error{n.addresses()}
	if n.Creds != "" && n.NKey != "" {
		faults = append(faults, errors.New("NATS_CREDS and NATS_NKEY_FILE are two ways to log in: set one"))
	}

	if n.Creds != "" {
		faults = append(faults, checkCreds(n.Creds))
		options = append(options, nats.UserCredentials(n.Creds))
	}

	if n.NKey != "" {
		option, err := nats.NkeyOptionFromSeed(n.NKey)
		if err != nil {
			faults = append(faults, fmt.Errorf("NATS_NKEY_FILE: %s holds no seed of a user's nkey", n.NKey))
		}

		options = append(options, option)
	}

	config := &tls.Config{MinVersion: tls.VersionTLS12}

	if n.CAFile != "" {
		pool, err := certPool("NATS_CA_FILE", n.CAFile)
		faults = append(faults, err)
		config.RootCAs = pool
	}

	if n.Cert != "" || n.CertsKey != "" {
		pair, err := keyPair("NATS_CERT_FILE", "NATS_KEY_FILE", n.Cert, n.CertsKey)
		faults = append(faults, err)
		config.Certificates = []tls.Certificate{pair}
	}

	if config.RootCAs != nil || len(config.Certificates) > 0 {
		options = append(options, nats.Secure(config))
	}

	return options, errors.Join(faults...)
}

// addresses checks the URL, which may be a list of the servers of a cluster. It is
// not quoted: it may hold a password.
func (n NATS) addresses() error {
	for address := range strings.SplitSeq(n.URL, ",") {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}

		at, err := url.Parse(address)
		if err != nil || at.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, at.Scheme) {
			return errors.New("NATS_URL must be nats://host:port or tls://host:port, or several of them separated by commas")
		}
	}

	return nil
}

// checkCreds reads a file of credentials as the client will at each connection.
func checkCreds(path string) error {
	content, err := readFile("NATS_CREDS", path)
	if err != nil {
		return err
	}

	if _, err := nkeys.ParseDecoratedJWT(content); err != nil {
		return fmt.Errorf("NATS_CREDS: %s holds no JWT of a user", path)
	}

	seed, err := nkeys.ParseDecoratedUserNKey(content)
	if err != nil {
		return fmt.Errorf("NATS_CREDS: %s holds no seed of a user's nkey", path)
	}

	seed.Wipe()

	return nil
}

// certPool reads the certificates that servers are trusted by, in addition to the system's.
func certPool(variable, path string) (*x509.CertPool, error) {
	content, err := readFile(variable, path)
	if err != nil {
		return nil, err
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without any
	}

	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s: %s holds no certificate in PEM form", variable, path)
	}

	return pool, nil
}

// keyPair reads the certificate of the client with its key.
func keyPair(certVariable, keyVariable, cert, key string) (tls.Certificate, error) {
	if cert == "" || key == "" {
		return tls.Certificate{}, fmt.Errorf("%s and %s belong together: set both", certVariable, keyVariable)
	}

	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and %s: %w", certVariable, keyVariable, err)
	}

	return pair, nil
}

// ProbeNATS connects to the server and asks it for JetStream.
func ProbeNATS(ctx context.Context, url string, options []nats.Option) domain.CheckResult {
	connection, err := nats.Connect(url, append(slices.Clone(options), nats.Timeout(probeTime), nats.NoReconnect())...)
	if err != nil {
		return failed("the server of NATS_URL cannot be reached ("+Cause(err)+")",
			"start it, or correct NATS_URL, NATS_CREDS and the files for TLS")
	}
	defer connection.Close()

	place := connection.ConnectedAddr()

	stream, err := jetstream.New(connection)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()

		_, err = stream.AccountInfo(ctx)
	}

	if err != nil {
		return failed(place+" has no JetStream ("+Cause(err)+")", "start nats-server with -js")
	}

	return passed(place + ", JetStream works")
}
