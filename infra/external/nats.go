package external

import (
	"bytes"
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

// NATS describes how to reach a NATS server: its addresses, a file of credentials or of
// an nkey's seed, the CA of its certificate and a certificate of the client with its key. A
// user with a password, or a token, is part of the URL.
type NATS struct {
	URL                 string
	Creds, CAFile, Cert string // paths of files; empty: not used
}

// Options returns the options of the connection. Errors name every invalid setting and contain no
// secret.
func (n NATS) Options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name("everloop"), nats.MaxReconnects(-1)}

	faults := []error{n.addresses()}
	if n.Creds != "" {
		option, err := login(n.Creds)
		faults = append(faults, err)
		options = append(options, option)
	}

	config := &tls.Config{MinVersion: tls.VersionTLS12}

	if n.CAFile != "" {
		pool, err := certPool("NATS_CA_FILE", n.CAFile)
		faults = append(faults, err)
		config.RootCAs = pool
	}

	if n.Cert != "" {
		pair, err := tls.LoadX509KeyPair(n.Cert, n.Cert)
		if err != nil {
			faults = append(faults, fmt.Errorf("NATS_CERT_FILE must contain the certificate and its key, as PEM: %w", err))
		}

		config.Certificates = []tls.Certificate{pair}
	}

	if config.RootCAs != nil || len(config.Certificates) > 0 {
		options = append(options, nats.Secure(config))
	}

	return options, errors.Join(faults...)
}

// addresses checks the URL, which can be a list of the servers of a cluster. Errors do not quote
// it, because it can contain a password.
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

// login returns the option for a file with a JWT and a seed, or with a seed only. It reads the
// file as the client does at each connection.
func login(path string) (nats.Option, error) {
	content, err := readFile("NATS_CREDS", path)
	if err != nil {
		return nil, err
	}

	seed, err := nkeys.ParseDecoratedUserNKey(content)
	if err != nil {
		return nil, fmt.Errorf("NATS_CREDS: %s contains no seed of a user's nkey", path)
	}

	seed.Wipe()

	if !bytes.Contains(content, []byte("-----BEGIN")) {
		return nats.NkeyOptionFromSeed(path)
	}

	if _, err := nkeys.ParseDecoratedJWT(content); err != nil {
		return nil, fmt.Errorf("NATS_CREDS: %s contains no JWT of a user", path)
	}

	return nats.UserCredentials(path), nil
}

// certPool returns the system's certificates and the certificates of a file.
func certPool(variable, path string) (*x509.CertPool, error) {
	content, err := readFile(variable, path)
	if err != nil {
		return nil, err
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without certificates
	}

	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s: %s contains no certificate in PEM form", variable, path)
	}

	return pool, nil
}

// ProbeNATS connects to the server and checks JetStream.
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
