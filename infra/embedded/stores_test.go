package embedded

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestEventsNeedToken(t *testing.T) {
	e, err := StartEvents(t.TempDir(), EventsConfig{Listen: Listen{Addr: "127.0.0.1:0"}}, slog.Default())
	require.NoError(t, err)

	defer func() { _ = e.Stop(context.Background()) }()

	address := e.URL()[strings.Index(e.URL(), "@")+1:]
	_, err = nats.Connect("nats://"+address, nats.Timeout(time.Minute))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	other, err := nats.Connect(e.URL(), nats.Timeout(time.Minute))
	require.NoError(t, err)

	defer other.Close()

	inside, err := e.Connect()
	require.NoError(t, err)

	defer inside.Close()

	heard, err := inside.SubscribeSync("said")
	require.NoError(t, err)
	require.NoError(t, inside.Flush())
	require.NoError(t, other.Publish("said", []byte("hello")))
	message, err := heard.NextMsgWithContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "hello", string(message.Data))
}

func TestEvents_inProcessByDefault(t *testing.T) {
	e, err := StartEvents(t.TempDir(), EventsConfig{}, slog.Default())
	require.NoError(t, err)

	defer func() { _ = e.Stop(context.Background()) }()

	require.Empty(t, e.URL())
	require.Nil(t, e.server.Addr())
	conn, err := e.Connect()
	require.NoError(t, err)
	conn.Close()
}

func TestStores_otherMachines(t *testing.T) {
	open := Listen{Addr: "0.0.0.0:0", Variable: "SOME_ADDR"}
	_, err := StartEvents(t.TempDir(), EventsConfig{Listen: open}, slog.Default())
	require.ErrorContains(t, err, "SOME_ADDR")
	_, err = StartObjects(t.Context(), t.TempDir(), ObjectsConfig{Listen: open}, slog.Default())
	require.ErrorContains(t, err, "SOME_ADDR")
}

func TestObjects_sidecarMetadata(t *testing.T) {
	t.Chdir(t.TempDir()) // the store changes the directory; this puts it back
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sidecar"), 0o700))

	for range 2 { // the second round reads what the first one wrote
		o, err := StartObjects(t.Context(), dir, ObjectsConfig{}, slog.Default())
		require.NoError(t, err)
		store := s3Client(t, addresses{S3Endpoint: o.Endpoint(), S3AccessKey: o.AccessKey(), S3SecretKey: o.SecretKey()})

		_, err = store.StatObject(t.Context(), Bucket, "a/first", minio.StatObjectOptions{})
		if err != nil {
			_, err = store.PutObject(t.Context(), Bucket, "a/first", strings.NewReader("first"), 5,
				minio.PutObjectOptions{UserMetadata: map[string]string{"colour": "blue"}})
			require.NoError(t, err)
		}

		info, err := store.StatObject(t.Context(), Bucket, "a/first", minio.StatObjectOptions{})
		require.NoError(t, err)
		require.Equal(t, "blue", info.UserMetadata["Colour"])
		require.NoError(t, o.Stop(context.Background()))
	}

	require.FileExists(t, filepath.Join(dir, "data", Bucket, "a", "first"))
	require.DirExists(t, filepath.Join(dir, "sidecar", Bucket, "a", "first"))
}

func TestObjects_unknownCredentials(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	o, err := StartObjects(t.Context(), dir, ObjectsConfig{}, slog.Default())

	require.NoError(t, err)
	defer func() { require.NoError(t, o.Stop(context.Background())) }()

	for _, at := range []addresses{
		{S3Endpoint: o.Endpoint()},
		{S3Endpoint: o.Endpoint(), S3AccessKey: o.AccessKey(), S3SecretKey: "wrong"},
	} {
		_, err := s3Client(t, at).PutObject(t.Context(), Bucket, "x", bytes.NewReader(nil), 0, minio.PutObjectOptions{})
		require.Error(t, err)
	}

	info, err := os.Stat(filepath.Join(dir, "credentials.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, o.Stop(context.Background()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credentials.json"), []byte("{}"), 0o600))
	_, err = StartObjects(t.Context(), dir, ObjectsConfig{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	require.ErrorContains(t, err, "contains no credentials")
}

func TestSyncUpwards_everyDirectory(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(top, "a", "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(top, "a", "b", "c"), nil, 0o600))
	require.NoError(t, syncUpwards(top, "a/b/c"))
	require.ErrorIs(t, syncUpwards(top, "a/b/missing"), os.ErrNotExist)
	require.ErrorIs(t, syncUpwards(filepath.Join(top, "gone"), "."), os.ErrNotExist)
}
