package external_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pki is a private CA with a certificate for servers on 127.0.0.1 and one for a
// client, as files.
type pki struct {
	dir                   string
	ca                    *x509.Certificate
	key                   *ecdsa.PrivateKey
	caFile                string
	serverCert, serverKey string
	clientCert, clientKey string
	otherCA               string // one that signed neither
}

func newPKI(t *testing.T, clientName string) *pki {
	t.Helper()

	dir, err := os.MkdirTemp("", "external-pki-") // readable for the user that runs PostgreSQL
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	p := &pki{dir: dir}
	p.caFile, p.ca, p.key = p.authority(t, "ca")
	p.otherCA, _, _ = p.authority(t, "other-ca")
	p.serverCert, p.serverKey = p.leaf(t, "server", "localhost", x509.ExtKeyUsageServerAuth)
	p.clientCert, p.clientKey = p.leaf(t, "client", clientName, x509.ExtKeyUsageClientAuth)

	return p
}

func (p *pki) authority(t *testing.T, name string) (string, *x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)

	return p.file(t, name+".pem", "CERTIFICATE", der, 0o644), cert, key
}

func (p *pki) leaf(t *testing.T, name, subject string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := template(subject)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, &key.PublicKey, p.key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)

	return p.file(t, name+".pem", "CERTIFICATE", der, 0o644), p.file(t, name+".key", "PRIVATE KEY", secret, 0o600)
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))

	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func (p *pki) file(t *testing.T, name, kind string, der []byte, mode os.FileMode) string {
	path := filepath.Join(p.dir, name)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode))

	return path
}

// serverTLS returns the configuration of a server that demands the client's certificate.
func (p *pki) serverTLS(t *testing.T, demand bool) *tls.Config {
	pair, err := tls.LoadX509KeyPair(p.serverCert, p.serverKey)
	require.NoError(t, err)

	pool := x509.NewCertPool()
	pool.AddCert(p.ca)

	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if demand {
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}

	return config
}
