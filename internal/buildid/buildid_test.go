package buildid

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf_namesVersionAndProgram(t *testing.T) {
	first, err := Of("2611.0.0")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`^2611\.0\.0-[0-9a-f]{12}$`), first)

	again, err := Of("2611.0.0")
	require.NoError(t, err)
	require.Equal(t, first, again)
}

func TestOfFile_followsTheBuildIDAndElseTheContent(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	built, err := ofFile(program)
	require.NoError(t, err)

	content, err := os.ReadFile(program)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(copied, append(content, "more"...), 0o600))
	same, err := ofFile(copied)
	require.NoError(t, err)
	require.Equal(t, built, same, "the linker's build id counts, not the bytes of the file")

	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("one"), 0o600))
	one, err := ofFile(plain)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(plain, []byte("two"), 0o600))
	two, err := ofFile(plain)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
}
