package testkit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// asProbe makes this test binary run again as a program that starts the engines,
// says where they are and waits to be killed.
const asProbe = "TESTKIT_TEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(asProbe) != "" {
		found, err := startEngines()
		if err != nil {
			fmt.Println("fault", err)
			os.Exit(1)
		}

		fmt.Println(found.creator())

		select {}
	}

	os.Exit(m.Run())
}

func TestPostgres_ownDatabasePerTest(t *testing.T) {
	var urls [2]string

	t.Run("uses", func(t *testing.T) {
		var both sync.WaitGroup
		for i := range urls {
			both.Go(func() { urls[i] = Postgres(t) })
		}

		both.Wait()
		require.NotEqual(t, urls[0], urls[1])

		for _, url := range urls {
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			// Left open on purpose: the database must go nevertheless.
			_, err = conn.Exec(t.Context(), "INSERT INTO users (id, username) VALUES ('u1', 'first-user')")
			require.NoError(t, err, "the schema is there and the table is empty")
		}
	})

	for _, url := range urls {
		_, err := pgx.Connect(t.Context(), url)
		require.ErrorContains(t, err, "does not exist")
	}
}

func TestPostgres_templateMadeOnce(t *testing.T) {
	Postgres(t)
	server := Engines(t).Get(t, "postgres_url")

	var before, after uint32

	oid := func(into *uint32) {
		require.NoError(t, onServer(server, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT oid FROM pg_database WHERE datname = $1", templateName()).Scan(into)
		}))
	}
	oid(&before)
	// As another test binary on the same server would.
	templateMu.Lock()
	clear(templateMade)
	templateMu.Unlock()
	Postgres(t)
	oid(&after)
	require.Equal(t, before, after)
}

func TestTemporal_runsWorkflows(t *testing.T) {
	options := Temporal(t)
	options.ConnectionOptions.GetSystemInfoTimeout = time.Minute
	prefix := Prefix(t)
	c, err := client.Dial(options)
	require.NoError(t, err)

	defer c.Close()

	w := worker.New(c, prefix, worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) (int, error) { return 42, nil }, workflow.RegisterOptions{Name: "answer"})

	require.NoError(t, w.Start())
	defer w.Stop()

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: prefix, TaskQueue: prefix}, "answer")
	require.NoError(t, err)

	var answer int
	require.NoError(t, run.Get(t.Context(), &answer))
	require.Equal(t, 42, answer)
}

func TestEvents_keepStreams(t *testing.T) {
	nc, err := nats.Connect(Events(t), nats.Timeout(time.Minute))
	require.NoError(t, err)

	defer nc.Close()

	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	prefix := Prefix(t)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: prefix, Subjects: []string{prefix + ".>"}})
	require.NoError(t, err)
	ack, err := js.Publish(t.Context(), prefix+".one", []byte("one"))
	require.NoError(t, err)
	require.EqualValues(t, 1, ack.Sequence)
}

func TestObjects_removesBucket(t *testing.T) {
	var (
		bucket Bucket
		store  *minio.Client
	)

	t.Run("uses", func(t *testing.T) {
		bucket = Objects(t)

		var err error

		store, err = minio.New(bucket.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(bucket.AccessKey, bucket.SecretKey, "")})
		require.NoError(t, err)
		_, err = store.PutObject(t.Context(), bucket.Name, "a/b/c", strings.NewReader("x"), 1, minio.PutObjectOptions{})
		require.NoError(t, err)
	})
	exists, err := store.BucketExists(t.Context(), bucket.Name)
	require.NoError(t, err)
	require.False(t, exists)
}

func TestPrefix_uniqueAndPlain(t *testing.T) {
	t.Run("Ünusual/Name with a very long tail, longer than any bucket may be", func(t *testing.T) {
		one, two := Prefix(t), Prefix(t)
		require.NotEqual(t, one, two)
		require.Regexp(t, `^[a-z0-9][a-z0-9-]{3,39}$`, one)
	})
}

func TestEngines_endWithTestProcess(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)

	probe := exec.Command(program)

	probe.Env = append(os.Environ(), asProbe+"=1", "EVERLOOP_TEST_ENGINES=")
	stdout, err := probe.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, probe.Start())

	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	url := lines.Text()
	require.True(t, strings.HasPrefix(url, "postgres://"), url)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)

	defer conn.Close(context.Background())

	var data string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT setting FROM pg_settings WHERE name = 'unix_socket_directories'").Scan(&data))
	require.DirExists(t, data)

	require.NoError(t, probe.Process.Kill())
	require.Error(t, probe.Wait())
	require.Eventually(t, func() bool {
		_, err := os.Stat(data)
		return conn.Ping(t.Context()) != nil && os.IsNotExist(err)
	}, time.Minute, 50*time.Millisecond, "the engines outlived the test process")
}

func TestEngines_reportStartFaults(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "everloop")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho no database today >&2\nexit 1\n"), 0o755))
	_, err := runEngines(broken, time.Minute)
	require.ErrorContains(t, err, "ended before it was ready")
	require.ErrorContains(t, err, "no database today")

	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho still thinking >&2\nread line\n"), 0o755))
	_, err = runEngines(broken, 300*time.Millisecond)
	require.ErrorContains(t, err, "was not ready after 300ms")

	_, err = runEngines(filepath.Join(dir, "absent"), time.Minute)
	require.ErrorContains(t, err, "start "+filepath.Join(dir, "absent"))

	t.Setenv("EVERLOOP_TEST_ENGINES", filepath.Join(dir, "absent.json"))

	_, err = startEngines()
	require.ErrorContains(t, err, "EVERLOOP_TEST_ENGINES")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "half.json"), []byte(`{"postgres_url":"x","nats_url":""}`), 0o600))
	_, err = readAddresses(filepath.Join(dir, "half.json"))
	require.ErrorContains(t, err, "has no value of nats_url")
}
