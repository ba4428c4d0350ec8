//go:build linux

package skills_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/skill"
	"everloop/infra/workspace"
)

// A process may die between the two renames that put a package instead of
// another, or before them; nothing that anybody had is lost by that.
func TestACrashWhileAPackageIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("skill-authoring")
	w.upload(session, "forms", "SKILL.md", document("forms", "1.0.0", "the first"))
	w.upload(session, "other", "SKILL.md", document("other", "1.0.0", "another"))
	w.load(session, "skill-authoring")

	open := func() *workspace.Workspace {
		files, err := w.workspaces.Open(t.Context(), session.ID, 0)
		require.NoError(t, err)

		return files
	}

	f := open()
	defer f.Close()

	crash := func() { // after the first rename
		require.NoError(t, f.Rename(".skills/forms", ".skills/.old-forms-ABC", false))
	}
	names := func(dir string) []string {
		list, err := f.List(t.Context(), dir, workspace.MaxListed)
		require.NoError(t, err)

		var out []string
		for _, entry := range list {
			out = append(out, entry.Name)
		}

		return out
	}

	crash()
	w.write(session, ".skills/.new-XYZ/SKILL.md", "half of")
	require.Contains(t, w.offered(session), "forms", "the next look finds it again")
	require.Contains(t, w.load(session, "forms").Body, "the first")
	require.Equal(t, []string{".new-XYZ", "forms", "other"}, names(".skills"), "another process may be writing it")

	crash()

	out, err := w.skills.Resync(t.Context(), session)
	require.NoError(t, err)
	require.Empty(t, out, "for a resync nothing has happened")

	crash()

	done, err := w.skills.Upload(t.Context(), session, "forms", files("SKILL.md", document("forms", "2.0.0", "the second")))
	require.NoError(t, err)
	require.Equal(t, "forms", done.Name)
	require.Contains(t, w.load(session, "forms").Body, "the second", "what was replaced does not come back")

	// Leftovers go: what was replaced at once, what was being written when no process
	// can be at it any more.
	old := time.Now().Add(-2 * time.Hour)

	w.write(session, ".everloop/skills/.new-AB/SKILL.md", "half of")
	w.write(session, ".everloop/skills/.old-skill-authoring-AB/SKILL.md", "replaced")
	w.write(session, ".skills/.old-..-AB/x", "of another user")

	for _, dir := range []string{".skills/.new-XYZ", ".everloop/skills/.new-AB"} {
		require.NoError(t, os.Chtimes(filepath.Join(f.HostPath(), dir), old, old))
	}

	out, err = w.skills.Resync(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, skill.Resync{}, out)
	require.Equal(t, []string{".old-..-AB", "forms", "other"}, names(".skills"))
	require.Equal(t, []string{"skill-authoring"}, names(".everloop/skills"))
}
