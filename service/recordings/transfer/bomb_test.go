package transfer_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// compressible is 64 MB that are allowed to become a hundredth of it.
func compressible() string {
	random := rand.New(rand.NewPCG(1, 2))

	data := make([]byte, 64<<20)
	for at := 0; at < len(data); at += 4096 {
		for i := range 32 {
			data[at+i] = byte(random.Uint32())
		}
	}

	return string(data)
}

// named adds a content and a snapshot that names it so many times.
func (b *box) named(content string, times int) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	b.put("blobs/"+sum, content)
	b.change["blobs/"+sum] = func(h *zip.FileHeader) { h.Method = zip.Deflate }

	files := []any{}
	for i := range times {
		files = append(files, map[string]any{
			"path": fmt.Sprintf("copies/%d", i), "type": "file", "mode": 0o644, "size": len(content), "sha256": sum,
		})
	}

	b.json("checkpoints.json", func(m map[string]any) {
		m["snapshots"] = append(m["snapshots"].([]any), map[string]any{"id": "bomb", "files": files})
		m["checkpoints"].([]any)[0].(map[string]any)["snapshot_id"] = "bomb"
	})
	b.sign()
}

// One content of 64 MB that a snapshot names 24 times is refused before anything is
// written; one that is named three times is stored once.
func TestImport_contentNamedManyTimes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	content := compressible()
	archive := func(times int) []byte {
		b := unpack(t, data)
		b.named(content, times)

		return b.pack()
	}
	before := h.traces()
	refused := func(packed []byte) {
		t.Helper()
		require.Less(t, len(packed), 4<<20)
		preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(packed), int64(len(packed)))
		require.NoError(t, err)
		require.False(t, preview.Compatible)
		require.Contains(t, preview.Errors[0], "the files of a snapshot")

		_, _, err = h.load(packed)
		require.True(t, domain.HasCode(err, "zip_expands"), "%v", err)
		require.Equal(t, before, h.traces())
	}
	refused(archive(24)) // more than 200 times the archive
	refused(archive(80)) // more than an archive may expand to

	h.service.Config().WorkspaceBytes = 100 << 20

	refused(archive(2)) // more than a workspace may hold

	h.service.Config().WorkspaceBytes = 200 << 20
	id, _, err := h.load(archive(3))
	require.NoError(t, err)
	keys, err := h.objects.Keys(t.Context(), "snapshots/"+string(id)+"/chunks/")
	require.NoError(t, err)
	require.Len(t, keys, 8)
}

func TestImport_workspaceLargerThanAllowed_isRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	before := h.traces()
	h.service.Config().WorkspaceBytes = 1 << 20
	preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.False(t, preview.Compatible)

	_, _, err = h.load(data)
	require.True(t, domain.HasCode(err, "zip_expands"), "%v", err)
	require.Equal(t, before, h.traces())
}

// JSON that is small becomes large values: it is counted before it is decoded, and
// names are compared without a hash of every prefix.
func TestImport_smallJSONThatBecomesLarge_isRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	before := h.traces()
	many := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	deep := func() string {
		files := make([]any, 2000)
		for i := range files {
			files[i] = map[string]any{"path": fmt.Sprintf("%d/", i) + strings.Repeat("d/", 2000) + "f", "type": "directory"}
		}

		list, err := json.Marshal(files)
		require.NoError(t, err)

		return `{"checkpoints":[],"snapshots":[{"id":"s","files":` + string(list) + `}]}`
	}

	for name, change := range map[string]func(*box){
		"calls":       func(b *box) { b.content["turns.jsonl"] = `{"tool_calls":` + many(1_000_000) + "}\n" },
		"blocks":      func(b *box) { b.content["turns.jsonl"] = `{"blocks":` + many(1_000_000) + "}\n" },
		"chats":       func(b *box) { b.content["history.json"] = `{"chats":` + many(1_000_000) + "}" },
		"tasks":       func(b *box) { b.content["session.json"] = `{"tasks":` + many(1_000_000) + "}" },
		"checkpoints": func(b *box) { b.content["checkpoints.json"] = `{"checkpoints":` + many(1_000_000) + "}" },
		"snapshots":   func(b *box) { b.content["checkpoints.json"] = `{"snapshots":` + many(1_000_000) + "}" },
		"directories": func(b *box) { b.content["checkpoints.json"] = deep() },
	} {
		b := unpack(t, data)
		change(b)
		b.sign()
		packed := b.pack()
		preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(packed), int64(len(packed)))
		require.NoError(t, err, name)
		require.False(t, preview.Compatible, name)
		require.Regexp(t, `more than`, preview.Errors[0], name)
	}

	require.Equal(t, before, h.traces())
}
