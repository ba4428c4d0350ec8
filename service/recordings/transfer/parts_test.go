package transfer_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/transfer"
)

// An export for a caller that may not read the files has the conversation, and
// can be imported.
func TestExportWithoutFiles(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.exportParts(source, transfer.ExportParts{Private: true})
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)

	var manifest struct {
		Redactions []string `json:"redactions"`
		Links      []any    `json:"links"`
		Counts     struct {
			Turns, Files int
		} `json:"counts"`
	}

	for _, f := range archive.File {
		require.False(t, strings.HasPrefix(f.Name, "workspace/") || strings.HasPrefix(f.Name, "blobs/"), f.Name)
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)

		switch f.Name {
		case "manifest.json":
			require.NoError(t, json.Unmarshal(content, &manifest))
		case "checkpoints.json":
			require.NotContains(t, string(content), `"path"`)
		}
	}

	require.Contains(t, manifest.Redactions, "files")
	require.Empty(t, manifest.Links)
	require.Zero(t, manifest.Counts.Files)
	require.Positive(t, manifest.Counts.Turns)

	id, _, err := h.load(data)
	require.NoError(t, err)

	turns, files := 0, 0

	require.NoError(t, h.db.Messages(t.Context(), id, nil, 0, func(domain.Turn) error { turns++; return nil }))
	require.NoError(t, h.carrier.Walk(t.Context(), h.session(id), func(domain.CarriedFile) error { files++; return nil }))
	require.Positive(t, turns)
	require.Zero(t, files)
}
