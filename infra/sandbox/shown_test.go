package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// No start when a directory that sandboxes show holds the service's own data, however
// the path is written.
func TestHostView_checkPrivate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := func(name string) string {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(path, 0o755))

		return path
	}
	shown, other := dir("opt"), dir("srv")
	inside := dir("opt/everloop/data")
	link := filepath.Join(root, "link")
	require.NoError(t, os.Symlink(filepath.Join(shown, "everloop"), link))

	view := hostView{dirs: []string{shown}}
	for _, private := range []string{
		shown, inside, root, filepath.Join(link, "data"), filepath.Join(shown, "not/made/yet"), filepath.Join(link, "new"),
		filepath.Join(other, "../opt/everloop"),
	} {
		require.ErrorContains(t, view.checkPrivate([]string{other, private}), "which commands can read", private)
	}

	for _, private := range []string{other, filepath.Join(other, "new"), shown + "-data", filepath.Join(root, "new/opt")} {
		require.NoError(t, view.checkPrivate([]string{private}), private)
	}

	usr, err := scanHost(nil)
	require.NoError(t, err)
	require.ErrorContains(t, usr.checkPrivate([]string{"/usr/local/everloop/data"}), "/usr")
}

func TestHostView_checkPrivate_bindMount(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	shown, elsewhere := filepath.Join(root, "opt"), filepath.Join(root, "elsewhere")
	require.NoError(t, os.MkdirAll(filepath.Join(shown, "data"), 0o755))
	require.NoError(t, os.MkdirAll(elsewhere, 0o755))

	if err := unix.Mount(shown, elsewhere, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no bind mounts here: %v", err)
	}

	t.Cleanup(func() { require.NoError(t, unix.Unmount(elsewhere, unix.MNT_DETACH)) })

	view := hostView{dirs: []string{shown}}
	require.ErrorContains(t, view.checkPrivate([]string{filepath.Join(elsewhere, "data")}), "which commands can read")
}

func TestNew_refusesToShowPrivateDirectories(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("/var/tmp", filepath.Base(t.TempDir())+"-shown")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	_, err := New(t.Context(), Config{ReadOnly: []string{dir}, Private: []string{filepath.Join(dir, "data")}})
	require.ErrorContains(t, err, "holds secrets of the service")
}
