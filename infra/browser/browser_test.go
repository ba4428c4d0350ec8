package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// installed makes a machine with all parts.
func installed(t *testing.T) Tools {
	t.Helper()

	dir := t.TempDir()

	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, mode))

		return path
	}
	write(server, 0o644)

	return Tools{
		Dir: dir, Proxy: "http://127.0.0.1:3128",
		programs: []string{filepath.Join(dir, "none"), write("chromium", 0o755)}, nodes: []string{write("node", 0o755)},
	}
}

func TestTools_Command_confinesTheBrowser(t *testing.T) {
	t.Parallel()

	tools := installed(t)
	argv, env, err := tools.Command("browser")
	require.NoError(t, err)
	require.Equal(t, []string{
		filepath.Join(tools.Dir, "node"), filepath.Join(tools.Dir, "node_modules/@playwright/mcp/cli.js"),
		"--browser", "chromium", "--executable-path", filepath.Join(tools.Dir, "chromium"),
		"--headless", "--isolated", "--block-service-workers", "--no-sandbox",
		"--proxy-server", "http://127.0.0.1:3128", "--proxy-bypass", "<-loopback>",
		"--output-dir", "browser", "--output-max-size", "268435456", "--image-responses", "allow",
	}, argv)
	require.Equal(t, map[string]string{"HOME": "/tmp"}, env)
	require.Equal(t, []string{filepath.Join(tools.Dir, "node_modules")}, tools.Shown())
	require.Empty(t, tools.Missing())

	_, _, err = tools.Command("teapot")
	require.ErrorContains(t, err, `"teapot"`)
}

func TestTools_Missing_namesTheCommands(t *testing.T) {
	t.Parallel()

	tools := installed(t)
	require.NoError(t, os.Chmod(filepath.Join(tools.Dir, "node"), 0o644))
	require.NoError(t, os.RemoveAll(filepath.Join(tools.Dir, "node_modules")))
	require.NoError(t, os.Remove(filepath.Join(tools.Dir, "chromium")))
	require.Equal(t, []Missing{
		{"Node.js in /usr", "apt-get install nodejs npm"},
		{"@playwright/mcp in " + tools.Dir, "npm install --prefix " + tools.Dir + " --save-exact @playwright/mcp@" + Version},
		{"Chromium", "apt-get install chromium"},
	}, tools.Missing())
	require.Empty(t, tools.Shown(), "what is not there cannot be shown")

	_, _, err := tools.Command("browser")
	require.EqualError(t, err, "the browser tools are not installed on this machine, there is no Node.js in /usr, no @playwright/mcp in "+
		tools.Dir+", no Chromium: see everloop doctor")

	tools.Program = filepath.Join(tools.Dir, "elsewhere")
	require.Contains(t, tools.Missing(), Missing{"the program " + tools.Program, "install Chromium there"})
}

func TestTools_Shown_leavesOutWhatSandboxesSee(t *testing.T) {
	t.Parallel()
	require.Empty(t, Tools{Dir: "/usr/lib"}.Shown())
	require.Equal(t, DefaultDir, Tools{}.dir())
}

// The package that the repository and the end-to-end tests pin is the one that the
// command line is for.
func TestVersion_isWhatIsPinned(t *testing.T) {
	t.Parallel()

	for file, kind := range map[string]string{
		"../../build/browser/package.json": "dependencies", "../../e2e/package.json": "devDependencies",
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)

		var all map[string]any
		require.NoError(t, json.Unmarshal(text, &all))
		require.Equal(t, Version, all[kind].(map[string]any)["@playwright/mcp"], file)
	}
}
