package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
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
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const taskQueue = "embedded-test"

// parked waits for a signal, as a chat waits for an answer.
func parked(ctx workflow.Context) (string, error) {
	var said string
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &said)

	return said, nil
}

func TestEngines_keepDataOverStopAndKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()

	dir := t.TempDir()

	first := startProcess(t, dir)
	writeEverywhere(ctx, t, first.addresses)
	page := get(ctx, t, first.UI)
	require.Contains(t, page, "<html")
	first.stop(t)

	second := startProcess(t, dir)
	requireEverywhere(ctx, t, second.addresses)
	acked := writeObjectsUntil(ctx, t, second, func() { second.kill(t) })
	require.NotEmpty(t, acked)

	// At once: PostgreSQL may still be on its way down.
	third := startProcess(t, dir)
	requireEverywhere(ctx, t, third.addresses)

	store := s3Client(t, third.addresses)
	for key, content := range acked {
		object, err := store.GetObject(ctx, Bucket, key, minio.GetObjectOptions{})
		require.NoError(t, err)
		got, err := io.ReadAll(object)
		require.NoError(t, err, "acknowledged object %s", key)
		require.Equal(t, content, string(got))
	}

	finishParked(ctx, t, third.addresses)
	third.stop(t)
	_, err := net.Dial("tcp", third.Temporal)
	require.Error(t, err)
}

func writeEverywhere(ctx context.Context, t *testing.T, at addresses) {
	for _, url := range []string{at.Postgres, at.PostgresTCP} {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		_, err = conn.Exec(
			ctx,
			"CREATE TABLE IF NOT EXISTS kept (n int PRIMARY KEY); INSERT INTO kept SELECT coalesce(max(n), 0) + 1 FROM kept",
		)
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	}

	nc, err := nats.Connect(at.Events, nats.Timeout(time.Minute))
	require.NoError(t, err)

	defer nc.Close()

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}, Storage: jetstream.FileStorage})
	require.NoError(t, err)
	_, err = js.Publish(ctx, "kept", bytes.Repeat([]byte("x"), 2<<20)) // above NATS's default limit
	require.NoError(t, err)

	store := s3Client(t, at)
	_, err = store.PutObject(
		ctx,
		Bucket,
		"kept/one",
		strings.NewReader("one"),
		3,
		minio.PutObjectOptions{UserMetadata: map[string]string{"colour": "blue"}},
	)
	require.NoError(t, err)
	_, err = store.CopyObject(
		ctx,
		minio.CopyDestOptions{Bucket: Bucket, Object: "kept/deep/copy"},
		minio.CopySrcOptions{Bucket: Bucket, Object: "kept/one"},
	)
	require.NoError(t, err)

	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB in parts of 5
	_, err = store.PutObject(ctx, Bucket, "kept/large", bytes.NewReader(large), -1, minio.PutObjectOptions{PartSize: 5 << 20})
	require.NoError(t, err)

	c := temporalClient(t, at)
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "session/kept", TaskQueue: taskQueue,
	}, "parked")
	require.NoError(t, err)
}

func requireEverywhere(ctx context.Context, t *testing.T, at addresses) {
	conn, err := pgx.Connect(ctx, at.Postgres)
	require.NoError(t, err)

	defer conn.Close(ctx)

	var rows int
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&rows))
	require.Equal(t, 2, rows)

	nc, err := nats.Connect(at.Events, nats.Timeout(time.Minute))
	require.NoError(t, err)

	defer nc.Close()

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(ctx, "KEPT")
	require.NoError(t, err)
	message, err := stream.GetMsg(ctx, 1)
	require.NoError(t, err)
	require.Len(t, message.Data, 2<<20)

	store := s3Client(t, at)
	info, err := store.StatObject(ctx, Bucket, "kept/one", minio.StatObjectOptions{})
	require.NoError(t, err)
	require.Equal(t, "blue", info.UserMetadata["Colour"])

	for key, size := range map[string]int64{"kept/deep/copy": 3, "kept/large": 16 << 20} {
		info, err := store.StatObject(ctx, Bucket, key, minio.StatObjectOptions{})
		require.NoError(t, err)
		require.Equal(t, size, info.Size)
	}

	c := temporalClient(t, at)
	require.Eventually(t, func() bool {
		count, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: `WorkflowId = "session/kept" AND ExecutionStatus = "Running"`,
		})

		return err == nil && count.Count == 1
	}, time.Minute, 50*time.Millisecond)
}

// finishParked shows that a workflow of before the kill continues.
func finishParked(ctx context.Context, t *testing.T, at addresses) {
	c := temporalClient(t, at)
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(parked, workflow.RegisterOptions{Name: "parked"})

	require.NoError(t, w.Start())
	defer w.Stop()

	require.NoError(t, c.SignalWorkflow(ctx, "session/kept", "", "go", "done"))

	var said string
	require.NoError(t, c.GetWorkflow(ctx, "session/kept", "").Get(ctx, &said))
	require.Equal(t, "done", said)
}

// writeObjectsUntil writes from several sides, calls end in the midst of it, and
// returns what was acknowledged.
func writeObjectsUntil(ctx context.Context, t *testing.T, p *enginesProcess, end func()) map[string]string {
	store := s3Client(t, p.addresses)
	acked := map[string]string{}

	var (
		mu      sync.Mutex
		writers sync.WaitGroup
	)

	enough := make(chan struct{})

	for side := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("killed/%d/%d/object", side, n)
				content := strings.Repeat(key, 200)
				put, cancel := context.WithTimeout(ctx, time.Minute)
				_, err := store.PutObject(put, Bucket, key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})

				cancel()

				if err != nil {
					return // killed
				}

				mu.Lock()

				acked[key] = content
				if len(acked) == 100 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}

	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal("too few objects were written")
	}

	end()
	writers.Wait()

	return acked
}

func TestStart_directoryInUse(t *testing.T) {
	dir := t.TempDir()
	held, err := lockDir(dir)
	require.NoError(t, err)
	_, err = Start(t.Context(), allEngines(dir))
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(os.Getpid()))
	require.ErrorContains(t, err, "DATA_DIR")

	require.NoError(t, held.release())

	again, err := lockDir(dir)
	require.NoError(t, err)
	require.NoError(t, again.release())
}

func TestStart_addressesInUse(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer one.Close()

	dir := t.TempDir() + "/data"
	_, err = Start(t.Context(), Config{Dir: dir, Engines: []Engine{
		PostgresConfig{},
		TemporalConfig{Frontend: Listen{Addr: one.Addr().String(), Variable: "TEMPORAL_ADDR"}},
		TemporalUIConfig{Listen: Listen{Addr: "nonsense", Variable: "TEMPORAL_UI_ADDR"}},
	}})
	require.ErrorContains(t, err, one.Addr().String()+" is already in use")
	require.ErrorContains(t, err, "TEMPORAL_ADDR")
	require.ErrorContains(t, err, `TEMPORAL_UI_ADDR: "nonsense" is not a listen address`)
	require.NoDirExists(t, dir)
}

func TestStart_postgresDies(t *testing.T) {
	var states []string

	e, err := Start(t.Context(), Config{
		Dir: t.TempDir(), Engines: []Engine{PostgresConfig{}},
		Progress: func(part, state string) { states = append(states, part+" "+state) },
	})
	require.NoError(t, err)

	postgres := Of[*Postgres](e)
	server, err := os.FindProcess(postgres.Pid())
	require.NoError(t, err)
	require.NoError(t, server.Kill())

	select {
	case err := <-e.Dead():
		require.ErrorContains(t, err, "PostgreSQL ended by itself")
	case <-time.After(time.Minute):
		t.Fatal("the death was not reported")
	}

	require.NoError(t, e.Stop(context.Background()))
	require.NoDirExists(t, postgres.socketDir)
	require.Equal(t, []string{"postgres starting", "postgres ready", "postgres stopped"}, states)
}

// An engine that another one needs must be there, and the fault ends the start.
func TestStart_engineWithoutItsNeed(t *testing.T) {
	temporal := TemporalConfig{Frontend: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"}}

	ui := TemporalUIConfig{Listen: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_UI_ADDR"}}
	for want, engines := range map[string][]Engine{
		"needs a PostgreSQL server":          {temporal},
		"needs the embedded Temporal server": {ui},
	} {
		dir := t.TempDir()
		_, err := Start(t.Context(), Config{Dir: dir, Engines: engines})
		require.ErrorContains(t, err, want)
		lock, err := lockDir(dir)
		require.NoError(t, err, "the directory is free again")
		require.NoError(t, lock.release())
	}
}

// fakeEngine records when it starts and stops.
type fakeEngine struct {
	id    string
	needs []string
	fault error
}

func (f fakeEngine) name() string      { return f.id }
func (f fakeEngine) title() string     { return f.id }
func (f fakeEngine) after() []string   { return f.needs }
func (f fakeEngine) listens() []Listen { return nil }

func (f fakeEngine) start(context.Context, string, *Engines, *slog.Logger) (Running, error) {
	return fakeRunning{}, f.fault
}

type fakeRunning struct{}

func (fakeRunning) Done() <-chan struct{}      { return nil }
func (fakeRunning) Err() error                 { return nil }
func (fakeRunning) Stop(context.Context) error { return nil }

// Engines start after what they need and stop before it, whatever their order in the
// configuration.
func TestEngines_order(t *testing.T) {
	var states []string

	progress := func(name, state string) { states = append(states, name+" "+state) }
	e, err := Start(t.Context(), Config{Dir: t.TempDir(), Progress: progress, Engines: []Engine{
		fakeEngine{id: "c", needs: []string{"b", "absent"}}, fakeEngine{id: "b", needs: []string{"a"}}, fakeEngine{id: "a"},
	}})
	require.NoError(t, err)
	require.NoError(t, e.Stop(t.Context()))
	require.Equal(t, []string{
		"a starting", "a ready", "b starting", "b ready", "c starting", "c ready", "c stopped", "b stopped", "a stopped",
	}, states)

	states = nil
	_, err = Start(t.Context(), Config{Dir: t.TempDir(), Progress: progress, Engines: []Engine{
		fakeEngine{id: "c", needs: []string{"b"}},
		fakeEngine{id: "b", needs: []string{"a"}, fault: errors.New("broken")},
		fakeEngine{id: "a"},
	}})
	require.EqualError(t, err, "start b: broken")
	require.Equal(t, []string{"a starting", "a ready", "b starting", "a stopped"}, states, "what ran is stopped again")
}

func TestListenAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:7233":  "127.0.0.1 7233",
		"localhost:0":     "127.0.0.1 0",
		":80":             "0.0.0.0 80",
		"[::1]:8233":      "::1 8233",
		"7233":            "a host and a port are needed",
		"127.0.0.1:http":  "the port is not a number",
		"127.0.0.1:70000": "the port is not a number",
		"no such host:1":  "the host is neither",
	} {
		ip, port, err := Listen{Addr: addr, Variable: "X_ADDR"}.split()
		if err != nil {
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "X_ADDR")

			continue
		}

		require.Equal(t, want, fmt.Sprintf("%s %d", ip, port), addr)
	}
}

func s3Client(t *testing.T, at addresses) *minio.Client {
	t.Helper()

	c, err := minio.New(at.S3Endpoint, &minio.Options{Creds: credentials.NewStaticV4(at.S3AccessKey, at.S3SecretKey, ""), MaxRetries: 1})
	require.NoError(t, err)

	return c
}

func temporalClient(t *testing.T, at addresses) client.Client {
	t.Helper()

	options := keyed(at.Temporal, testServiceKey)
	options.ConnectionOptions.GetSystemInfoTimeout = time.Minute
	c, err := client.Dial(options)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	return c
}

// keyed gives the options of a client of another process.
func keyed(address, key string) client.Options {
	options := client.Options{
		HostPort: address, Namespace: Namespace, Logger: sdkLogger{}, ConnectionOptions: client.ConnectionOptions{TLSDisabled: true},
	}
	if key != "" {
		options.Credentials = client.NewAPIKeyStaticCredentials(key)
	}

	return options
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)

	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)

	return string(body)
}
