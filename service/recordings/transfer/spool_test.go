package transfer_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domaintransfer "everloop/domain/transfer"
	"everloop/service/recordings/transfer"
)

func TestWhatKilledProcessesLeftOnTheDiskIsClearedAway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	old := time.Now().Add(-time.Hour)

	dead, fresh := filepath.Join(h.service.Config().Spool, "transfer-dead"), filepath.Join(h.service.Config().Spool, "transfer-fresh")
	for _, dir := range []string{dead, fresh} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o700))
	}

	foreign := filepath.Join(h.service.Config().Spool, "chunk-1")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	require.NoError(t, os.Chtimes(dead, old, old))

	x, err := h.service.Export(t.Context(), h.owner, source, domaintransfer.ExportParts{Private: true, Files: true}) // it clears up before
	require.NoError(t, err)
	require.NoDirExists(t, dead)
	require.DirExists(t, fresh, "its process may be about to lock it")
	require.FileExists(t, foreign, "it belongs to others")

	dirs, err := filepath.Glob(filepath.Join(h.service.Config().Spool, "transfer-*"))
	require.NoError(t, err)

	for _, dir := range dirs {
		require.NoError(t, os.Chtimes(dir, old, old))
	}

	require.NoError(t, h.service.ClearSpool())
	require.NoDirExists(t, fresh)

	dirs, err = filepath.Glob(filepath.Join(h.service.Config().Spool, "transfer-*"))
	require.NoError(t, err)
	require.Len(t, dirs, 1, "the export that is under way keeps its own, however long it takes")

	var out bytes.Buffer
	require.NoError(t, x.Write(t.Context(), &out))
	require.NoError(t, x.Close())
	require.NoDirExists(t, dirs[0])
}

func TestASetupOfAnArchiveGivesNothingAway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	setup := func(s map[string]any) []byte {
		b := unpack(t, data)
		b.json("session.json", func(m map[string]any) { m["session_setup"] = s })
		b.sign()

		return b.pack()
	}
	rules := []any{
		map[string]any{"tool": "Bash", "decision": "allow"},
		map[string]any{"tool": "Bash", "pattern": "rm *", "decision": "deny"},
		map[string]any{"tool": "*", "decision": "allow"},
		map[string]any{"tool": "Network", "pattern": "example.org", "decision": "allow"},
		map[string]any{"tool": "Write", "decision": "ask"},
	}
	good := setup(map[string]any{
		"env_buckets": []any{"prod"}, "permissions": rules, "max_steps": 5, "network": "none",
		"skip_confirmations": true, "script": map[string]any{"tool": "Bash", "arguments": map[string]any{"command": "true"}},
	})
	preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(good), int64(len(good)))
	require.NoError(t, err)
	require.True(t, preview.Compatible, preview.Errors)
	require.Len(t, preview.Warnings, 5, preview.Warnings) // besides the environment and two files

	id, _, err := h.load(good)
	require.NoError(t, err)

	got := h.session(id).Setup
	require.Empty(t, got.EnvBuckets)
	require.False(t, got.SkipConfirmations, "an archive grants no permission")
	require.Nil(t, got.Script, "an archive makes no call")
	require.Equal(t, 5, got.MaxSteps)
	require.Equal(t, domain.NetworkNone, got.Network)
	require.Equal(
		t,
		[]domain.PermissionRule{{Tool: "Bash", Pattern: "rm *", Decision: "deny"}, {Tool: "Write", Decision: "ask"}},
		got.Permissions,
	)

	for name, bad := range map[string]map[string]any{
		"a decision that is none": {"permissions": []any{map[string]any{"tool": "Bash", "decision": "perhaps"}}},
		"a rule without a tool":   {"permissions": []any{map[string]any{"decision": "deny"}}},
		"an agent without a name": {"agents": []any{map[string]any{"description": "x"}}},
		"a negative budget":       {"budget": map[string]any{"max_tokens": -1}},
		"a threshold beyond":      {"compaction": map[string]any{"threshold_pct": 1000}},
		"endless steps":           {"max_steps": 1 << 40},
		"too many buckets":        {"env_buckets": make([]string, 21)},
		"a network that is none":  {"network": "wide"},
		"another type":            {"max_steps": "many"},
	} {
		_, _, err := h.load(setup(bad))
		require.True(t, domain.HasCode(err, transfer.CodeBadArchive), "%s: %v", name, err)
	}
}

// Neither an upload, nor its copy on the disk, nor an export starts while only the
// reserve of the disk is free.
func TestService_diskFull(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	session := h.furnish()
	cfg := *h.service.Config()
	cfg.Room = func() error { return errors.New("12 bytes are free") }
	full, err := transfer.New(cfg)
	require.NoError(t, err)

	_, err = full.Upload(t.Context(), h.owner, strings.NewReader("archive"))
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)

	_, err = full.Export(t.Context(), h.owner, session, domaintransfer.ExportParts{Private: true, Files: true})
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)

	up, err := h.service.Upload(t.Context(), h.owner, strings.NewReader("archive"))
	require.NoError(t, err)
	_, _, err = full.Fetch(t.Context(), domaintransfer.Import{SessionID: up.SessionID, Parts: []int64{up.Size}})
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)
	content, size, err := h.service.Fetch(t.Context(), domaintransfer.Import{SessionID: up.SessionID, Parts: []int64{up.Size}})
	require.NoError(t, err)
	require.Equal(t, up.Size, size)
	require.NoError(t, content.Close())
}
