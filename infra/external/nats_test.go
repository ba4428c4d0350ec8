package external_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/external"
)

func TestNATS_authentication(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")
	creds, operator := natsCreds(t)

	seed, public := natsKey(t)
	for name, test := range map[string]struct {
		serve   func(*server.Options)
		client  external.NATS
		refused external.NATS
		user    string
	}{
		"credentials over TLS": {
			serve:  func(o *server.Options) { operator(o); o.TLSConfig = p.serverTLS(t, false) },
			client: external.NATS{Creds: creds, CAFile: p.caFile}, refused: external.NATS{CAFile: p.caFile},
		},
		"nkey over TLS": {
			serve: func(o *server.Options) {
				o.Nkeys, o.TLSConfig = []*server.NkeyUser{{Nkey: public}}, p.serverTLS(t, false)
			},
			client: external.NATS{Creds: seed, CAFile: p.caFile}, refused: external.NATS{CAFile: p.caFile},
		},
		"password over TLS": {
			serve:  func(o *server.Options) { o.Username, o.Password, o.TLSConfig = "u", "hunter2", p.serverTLS(t, false) },
			client: external.NATS{CAFile: p.caFile}, user: "u:hunter2@", refused: external.NATS{CAFile: p.caFile},
		},
		"client certificate": {
			serve:  func(o *server.Options) { o.TLSConfig, o.TLSVerify = p.serverTLS(t, true), true },
			client: external.NATS{CAFile: p.caFile, Cert: joined(t, p.clientCert, p.clientKey)}, refused: external.NATS{CAFile: p.caFile},
		},
		"private CA": {
			serve:  func(o *server.Options) { o.TLSConfig = p.serverTLS(t, false) },
			client: external.NATS{CAFile: p.caFile}, refused: external.NATS{CAFile: p.otherCA},
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := startNATS(t, test.serve)
			test.client.URL, test.refused.URL = "nats://"+test.user+host, "nats://"+host
			options, err := test.client.Options()
			require.NoError(t, err)
			nc, err := nats.Connect(test.client.URL, append(append(options, events.ConnectOptions()...), nats.Timeout(time.Minute))...)
			require.NoError(t, err)

			defer nc.Close()

			_, err = nc.TLSConnectionState()
			require.NoError(t, err)
			_, err = events.Open(t.Context(), nc, events.Config{MaxBytes: 1 << 20})
			require.NoError(t, err)
			require.Eventually(t, func() bool { // a busy machine may not answer in time
				return external.ProbeNATS(t.Context(), test.client.URL, options).Status == domain.CheckOK
			}, time.Minute, time.Millisecond)

			options, err = test.refused.Options()
			require.NoError(t, err)
			check := external.ProbeNATS(t.Context(), test.refused.URL, options)
			require.Equal(t, domain.CheckFail, check.Status)
			require.NotContains(t, check.Message, "hunter2")
		})
	}
}

func TestNATS_faults(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")

	_, err := external.NATS{
		URL: "http://u:hunter2@x", Creds: p.serverKey, CAFile: p.dir + "/none.pem", Cert: p.clientCert,
	}.Options()
	for _, want := range []string{
		"NATS_URL must be", "NATS_CREDS: ", "NATS_CA_FILE: open ", "NATS_CERT_FILE must contain the certificate and its key",
	} {
		require.ErrorContains(t, err, want)
	}

	require.NotContains(t, err.Error(), "hunter2")

	for _, url := range []string{"127.0.0.1:4222", "tls://a:4222,tls://b:4222", "nats://token@a", "wss://a"} {
		_, err := external.NATS{URL: url}.Options()
		require.NoError(t, err, url)
	}
}

// joined returns one file with the contents of several.
func joined(t *testing.T, files ...string) string {
	t.Helper()

	var content []byte

	for _, file := range files {
		part, err := os.ReadFile(file)
		require.NoError(t, err)

		content = append(content, part...)
	}

	path := filepath.Join(t.TempDir(), "joined.pem")
	require.NoError(t, os.WriteFile(path, content, 0o600))

	return path
}

// startNATS starts a server with JetStream and gives its host and port.
func startNATS(t *testing.T, serve func(*server.Options)) string {
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, TLSTimeout: 30}
	serve(o)

	if o.TLSConfig != nil {
		o.TLS, o.AuthTimeout = true, 60
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}

	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))

	return s.Addr().String()
}

func natsKey(t *testing.T) (seedFile, public string) {
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	public, err = user.PublicKey()
	require.NoError(t, err)
	seedFile = filepath.Join(t.TempDir(), "user.nk")
	require.NoError(t, os.WriteFile(seedFile, seed, 0o600))

	return seedFile, public
}

// natsCreds makes an operator, an account with JetStream and a user, and gives the
// user's file of credentials with the server's settings.
func natsCreds(t *testing.T) (file string, serve func(*server.Options)) {
	must := func(pair nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)

		return pair, public
	}
	operator, operatorID := must(nkeys.CreateOperator())
	account, accountID := must(nkeys.CreateAccount())
	_, systemID := must(nkeys.CreateAccount())
	user, userID := must(nkeys.CreateUser())

	claims := jwt.NewAccountClaims(accountID)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	accountJWT, err := claims.Encode(operator)
	require.NoError(t, err)
	systemJWT, err := jwt.NewAccountClaims(systemID).Encode(operator)
	require.NoError(t, err)
	userJWT, err := jwt.NewUserClaims(userID).Encode(account)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	content, err := jwt.FormatUserConfig(userJWT, seed)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "user.creds")
	require.NoError(t, os.WriteFile(file, content, 0o600))

	resolver := &server.MemAccResolver{}
	require.NoError(t, resolver.Store(accountID, accountJWT))
	require.NoError(t, resolver.Store(systemID, systemJWT))

	return file, func(o *server.Options) {
		o.TrustedKeys, o.AccountResolver, o.SystemAccount = []string{operatorID}, resolver, systemID
	}
}
