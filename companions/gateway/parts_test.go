package gateway

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBreaker(t *testing.T) {
	t.Parallel()

	b, now := &breaker{}, time.Now()
	for range breakAfter {
		ok, as, _ := b.allow(now)
		require.True(t, ok)
		b.failedAt(now, as)
	}

	ok, _, after := b.allow(now)
	require.False(t, ok)
	require.Equal(t, breakFirst, after)
	now = now.Add(breakFirst)
	ok, first, _ := b.allow(now)
	require.True(t, ok, "one request tries again")
	ok, _, _ = b.allow(now)
	require.False(t, ok, "a second one does not")
	b.abandoned(first)
	ok, second, _ := b.allow(now)
	require.True(t, ok)
	b.failedAt(now, second)
	_, _, after = b.allow(now)
	require.Equal(t, 2*breakFirst, after)
	b.succeeded()
	require.False(t, b.open(now))
}

// Requests that were allowed before the breaker opened, and an earlier probe, end no probe.
func TestBreaker_abandoned_keepsTheProbeOfAnother(t *testing.T) {
	t.Parallel()

	b, now := &breaker{}, time.Now()
	_, before, _ := b.allow(now)

	for range breakAfter {
		b.failedAt(now, 0)
	}

	now = now.Add(breakFirst)
	ok, first, _ := b.allow(now)
	require.True(t, ok)
	b.abandoned(before)
	ok, _, _ = b.allow(now)
	require.False(t, ok, "the probe is under way")

	b.abandoned(first)
	ok, second, _ := b.allow(now)
	require.True(t, ok)
	b.abandoned(first)
	b.failedAt(now, before)
	ok, _, _ = b.allow(now.Add(breakMost))
	require.False(t, ok, "the second probe is under way")

	b.abandoned(second)
	ok, _, _ = b.allow(now.Add(breakMost))
	require.True(t, ok)
}

func TestSettings_faults(t *testing.T) {
	t.Parallel()

	_, err := Parse([]byte(`
keys: [{name: a, key: short}]
sources:
  - {name: s, kind: openai, base_url: "ftp://x", max_concurrency: -1}
  - {name: s, kind: odd, base_url: "http://user:secret@x"}
aliases: {a: default_model}
`))
	for _, text := range []string{
		"keys[0].key", "sources[0].base_url", "sources[0].max_concurrency",
		"sources[1].name", "sources[1].kind", "aliases.a",
	} {
		require.ErrorContains(t, err, text)
	}

	require.NotContains(t, err.Error(), "secret")
	_, err = Parse([]byte("surces: []"))
	require.ErrorContains(t, err, "surces")
}

func TestService_reload_keepsFaultlessSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config", "config.yaml")
	s, err := New(Config{File: file, Key: "k", DemoURL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	require.True(t, s.DemoOnly())
	require.Equal(t, "everloop-demo", s.table().real("gpt-4o"))
	require.Equal(t, "everloop-demo-speech", s.table().set.ASRModel)

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	before := s.table()

	require.NoError(t, os.WriteFile(file, []byte("sources: ["), 0o600))
	s.reload()
	require.Same(t, before, s.table())

	changed := []byte("keys: [{name: a, key: a-key-of-some-length}]\n" +
		"sources: [{name: demo, kind: demo, max_concurrency: 1024, max_queue: 4096}]\n")
	require.NoError(t, os.WriteFile(file, changed, 0o600))
	s.reload()
	require.NotNil(t, find(s.table().callers, "a-key-of-some-length"))
	require.Same(t, before.sources[0], s.table().sources[0], "an unchanged source keeps its queue")

	s.usage.add("a", "m", tally{Requests: 1, Prompt: 2})
	s.save()

	again, err := New(Config{File: file, Key: "k"})
	require.NoError(t, err)
	require.Equal(t, int64(2), again.usage.byKey["a"]["m"].Prompt)
}
