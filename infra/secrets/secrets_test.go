package secrets_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/secrets"
)

func TestBox(t *testing.T) {
	t.Parallel()

	_, err := secrets.NewBox("short")
	require.Error(t, err)
	box, err := secrets.NewBox(strings.Repeat("k", 32))
	require.NoError(t, err)
	sealed, err := box.Seal("bucket/a", []byte("hunter2"))
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "hunter2")

	again, err := box.Seal("bucket/a", []byte("hunter2"))
	require.NoError(t, err)
	require.NotEqual(t, sealed, again)
	value, err := box.Open("bucket/a", sealed)
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(value))

	other, err := secrets.NewBox(strings.Repeat("x", 32))
	require.NoError(t, err)

	broken := append([]byte{}, sealed...)
	broken[len(broken)-1] ^= 1

	for _, open := range []func() ([]byte, error){
		func() ([]byte, error) { return box.Open("bucket/b", sealed) },
		func() ([]byte, error) { return other.Open("bucket/a", sealed) },
		func() ([]byte, error) { return box.Open("bucket/a", broken) },
		func() ([]byte, error) { return box.Open("bucket/a", nil) },
	} {
		_, err := open()
		require.ErrorIs(t, err, secrets.ErrUnreadable)
	}
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "key")

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _ = secrets.KeyFile(path) })
	}

	wg.Wait()

	first, err := secrets.KeyFile(path)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(first), 32)

	second, err := secrets.KeyFile(path)
	require.NoError(t, err)
	require.Equal(t, first, second)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
