package skillpack_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/safezip"
	"everloop/internal/skillpack"
)

func files(pairs ...string) []skillpack.File {
	var list []skillpack.File
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, skillpack.InMemory(pairs[i], []byte(pairs[i+1])))
	}

	return list
}

func TestDigest_pathsAndContent(t *testing.T) {
	t.Parallel()
	p, err := skillpack.Inspect(t.Context(), files("scripts/run.sh", "#!/bin/sh\n", "SKILL.md", good))
	require.NoError(t, err)

	sum := sha256.Sum256(fmt.Appendf(nil, "SKILL.md\x00%d\x00%sscripts/run.sh\x0010\x00#!/bin/sh\n", len(good), good))
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), p.Digest)
	require.EqualValues(t, len(good)+10, p.Size)
	require.EqualValues(t, 0o755, p.Files[1].Mode)

	seen := map[string]bool{p.Digest: true}

	for _, changed := range [][]skillpack.File{
		files("scripts/run.sh", "#!/bin/sh \n", "SKILL.md", good),
		files("scripts/run", "#!/bin/sh\n", "SKILL.md", good),
		files("SKILL.md", good),
		files("SKILL.md", good, "scripts/run.sh", ""),
		files("SKILL.md", good, "scripts/run.sh", "#!/bin/sh\n", "x", ""),
	} {
		other, err := skillpack.Inspect(t.Context(), changed)
		require.NoError(t, err)
		require.False(t, seen[other.Digest])
		seen[other.Digest] = true
	}
}

func TestPackagesThatAreRefused(t *testing.T) {
	t.Parallel()

	many := files("SKILL.md", good)
	for i := range 500 {
		many = append(many, skillpack.InMemory(fmt.Sprint(i), nil))
	}

	huge := skillpack.InMemory("huge", nil)

	huge.Size = skillpack.MaxBytes
	for what, tc := range map[string]struct {
		files []skillpack.File
		says  string
	}{
		"no document":  {files("README.md", good), "no SKILL.md"},
		"many files":   {many, "more than 500"},
		"too large":    {append(files("SKILL.md", good), huge), "larger than"},
		"parent":       {files("SKILL.md", good, "../x", ""), "leaves"},
		"absolute":     {files("SKILL.md", good, "/etc/x", ""), "absolute"},
		"twice":        {files("SKILL.md", good, "SKILL.md", good), "is duplicated"},
		"file and dir": {files("SKILL.md", good, "a", "", "a.b", "", "a/b", ""), "file and a directory"},
	} {
		_, err := skillpack.Inspect(t.Context(), tc.files)
		invalid, ok := errors.AsType[*skillpack.Error](err)
		require.True(t, ok, "%s: %v", what, err)
		require.Contains(t, invalid.Error(), tc.says, what)
	}
}

func TestDigest_fileChangesWhileRead(t *testing.T) {
	t.Parallel()

	list := files("SKILL.md", good, "a", "12345")
	for _, size := range []int64{4, 6} {
		list[1].Size = size
		_, err := skillpack.Inspect(t.Context(), list)
		require.ErrorIs(t, err, skillpack.ErrChanged)
	}

	broken := errors.New("the disk is gone")
	list[1].Open = func() (io.ReadCloser, error) { return nil, broken }
	_, err := skillpack.Inspect(t.Context(), list)
	require.ErrorIs(t, err, broken)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = skillpack.Inspect(ended, list)
	require.ErrorIs(t, err, context.Canceled)
}

func zipped(t *testing.T, list []skillpack.File) *bytes.Reader {
	t.Helper()

	var out bytes.Buffer

	w := zip.NewWriter(&out)

	for _, f := range list {
		h := &zip.FileHeader{Name: f.Path, Method: zip.Deflate}
		h.SetMode(f.Mode)
		member, err := w.CreateHeader(h)
		require.NoError(t, err)
		content, err := f.Open()
		require.NoError(t, err)
		_, err = io.Copy(member, content)
		require.NoError(t, err)
	}

	require.NoError(t, w.Close())

	return bytes.NewReader(out.Bytes())
}

func TestZIP(t *testing.T) {
	t.Parallel()
	flat, err := skillpack.Inspect(t.Context(), files("SKILL.md", good, "scripts/run.sh", "#!/bin/sh\n"))
	require.NoError(t, err)

	for _, list := range [][]skillpack.File{
		files("SKILL.md", good, "scripts/run.sh", "#!/bin/sh\n"),
		files("pdf-forms/scripts/run.sh", "#!/bin/sh\n", "pdf-forms/SKILL.md", good),
		files("./SKILL.md", good, "./scripts/run.sh", "#!/bin/sh\n"),
		files("./pdf-forms/SKILL.md", good, "./pdf-forms/scripts/run.sh", "#!/bin/sh\n"),
		files("skill.md", good, "scripts/run.sh", "#!/bin/sh\n"),
		files("pdf-forms/Skill.MD", good, "pdf-forms/scripts/run.sh", "#!/bin/sh\n"),
		files("pdf-forms/SKILL.md", good, "pdf-forms/scripts/run.sh", "#!/bin/sh\n", "__MACOSX/pdf-forms/._SKILL.md", "x",
			"pdf-forms/.DS_Store", "x", ".DS_Store", "x"),
		files("SKILL.md", good, "scripts/run.sh", "#!/bin/sh\n", "scripts/._run.sh", "x", "Thumbs.db", "x", "scripts/desktop.ini", "x"),
	} {
		archive := zipped(t, list)
		p, err := skillpack.FromZIP(t.Context(), archive, archive.Size())
		require.NoError(t, err)
		require.Equal(t, flat.Digest, p.Digest, "the same package, however it is packed")
		require.EqualValues(t, 0o755, p.Files[1].Mode)
	}

	two := zipped(t, files("a/SKILL.md", good, "b/x", ""))
	_, err = skillpack.FromZIP(t.Context(), two, two.Size())
	require.ErrorContains(t, err, "no SKILL.md")
	bad := zipped(t, files("SKILL.md", good, "../x", ""))
	_, err = skillpack.FromZIP(t.Context(), bad, bad.Size())
	unsafe, ok := errors.AsType[*safezip.Error](err)
	require.True(t, ok)
	require.Equal(t, safezip.UnsafeName, unsafe.Reason)
}

func TestUnwrap(t *testing.T) {
	t.Parallel()

	list, dir := skillpack.Unwrap(files("a/SKILL.md", "", "a/b/c", ""))
	require.Equal(t, "a", dir)
	require.Equal(t, "b/c", list[1].Path)

	for _, same := range [][]skillpack.File{files("a/x", "", "a/y", ""), files("SKILL.md", ""), files("a/SKILL.md", "", "b/c", ""), nil} {
		list, dir := skillpack.Unwrap(same)
		require.Empty(t, dir)
		require.Len(t, list, len(same))
	}
}
