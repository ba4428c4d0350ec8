package external_test

import (
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/external"
	"everloop/infra/postgres"
)

// PostgreSQL's URL says all that TLS needs: its mode, the CA, and the certificate of
// the client, by which the server knows the user.
func TestPostgres_clientCertificate(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")
	addr := startPostgres(t, p)
	at := func(parameters url.Values) string {
		return "postgres://everloop@" + addr + "/postgres?" + parameters.Encode()
	}
	good := clientURL(p, addr)
	require.NoError(t, postgres.Migrate(t.Context(), good))
	db, err := postgres.Open(t.Context(), good, postgres.Options{ConnectTimeout: time.Minute})
	require.NoError(t, err)

	defer db.Close()

	require.NoError(t, db.Ping(t.Context()))
	server, clock := external.ProbePostgres(t.Context(), good)
	require.Equal(t, domain.CheckOK, server.Status)
	require.Nil(t, clock, "one machine has one clock")

	for name, parameters := range map[string]url.Values{
		"no certificate": {"sslmode": {"verify-full"}, "sslrootcert": {p.caFile}},
		"wrong CA":       {"sslmode": {"verify-full"}, "sslrootcert": {p.otherCA}, "sslcert": {p.clientCert}, "sslkey": {p.clientKey}},
		"no TLS":         {"sslmode": {"disable"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, postgres.Migrate(t.Context(), at(parameters)))
			server, _ := external.ProbePostgres(t.Context(), at(parameters))
			require.Equal(t, domain.CheckFail, server.Status)
		})
	}
}

// clientURL returns the whole address for a client with its certificate.
func clientURL(p *pki, addr string) string {
	return "postgres://everloop@" + addr + "/postgres?" + url.Values{
		"sslmode": {"verify-full"}, "sslrootcert": {p.caFile}, "sslcert": {p.clientCert}, "sslkey": {p.clientKey},
	}.Encode()
}

// startPostgres starts a server which accepts TLS and client certificates only.
func startPostgres(t *testing.T, p *pki) (addr string) {
	bin := postgresPrograms(t)
	dir, err := os.MkdirTemp("", "external-pg-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	account, run := postgresAccount(t)
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(data, 0o700))

	key := p.serverKey
	if account != nil { // the server reads its key, and writes its data
		key = filepath.Join(dir, "server.key")
		content, err := os.ReadFile(p.serverKey)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(key, content, 0o600))

		for _, path := range []string{data, key} {
			require.NoError(t, os.Chown(path, int(account.Uid), int(account.Gid)))
		}
	}

	initdb := run(filepath.Join(bin, "initdb"), "-D", data, "-U", "everloop", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("hostssl all all 127.0.0.1/32 cert\n"), 0o600))

	port := strconv.Itoa(freePort(t))
	server := run(
		filepath.Join(bin, "postgres"),
		"-D",
		data,
		"-p",
		port,
		"-c",
		"listen_addresses=127.0.0.1",
		"-c",
		"unix_socket_directories=",
		"-c",
		"fsync=off",
		"-c",
		"ssl=on",
		"-c",
		"ssl_cert_file="+p.serverCert,
		"-c",
		"ssl_key_file="+key,
		"-c",
		"ssl_ca_file="+p.caFile,
	)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)

	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		_ = log.Close()
	})

	addr = "127.0.0.1:" + port
	// The server accepts connections while it still starts up, and refuses them by word.
	require.Eventually(t, func() bool {
		connection, err := pgx.Connect(t.Context(), clientURL(p, addr))
		if err != nil {
			return false
		}

		return connection.Close(t.Context()) == nil
	}, time.Minute, 50*time.Millisecond, "see %s", log.Name())

	return addr
}

func postgresPrograms(t *testing.T) string {
	if dir := os.Getenv("POSTGRES_BIN_DIR"); dir != "" {
		return dir
	}

	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)

	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}

	path, err := exec.LookPath("initdb")
	require.NoError(t, err, "PostgreSQL is needed")

	return filepath.Dir(path)
}

// postgresAccount gives whom the server runs as, which must not be root, and makes
// commands of that user.
func postgresAccount(t *testing.T) (*syscall.Credential, func(name string, args ...string) *exec.Cmd) {
	var account *syscall.Credential

	if os.Geteuid() == 0 {
		found, err := user.Lookup("postgres")
		if err != nil {
			found, err = user.Lookup("nobody")
		}

		require.NoError(t, err)
		uid, err := strconv.Atoi(found.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(found.Gid)
		require.NoError(t, err)

		account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}

	return account, func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account, Pdeathsig: syscall.SIGINT}

		return cmd
	}
}
