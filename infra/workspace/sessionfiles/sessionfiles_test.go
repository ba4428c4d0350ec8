//go:build linux

package sessionfiles

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/workspace"
)

type bench struct {
	Files
	session domain.Session
	host    string
}

func newBench(t *testing.T, limit int64) bench {
	t.Helper()
	store := workspace.NewLimited(filepath.Join(t.TempDir(), "workspace"), workspace.Limits{Bytes: limit})
	b := bench{Files: Files{Store: store}, session: domain.Session{ID: "s"}}
	w, err := b.Store.Open(t.Context(), "s", 0)
	require.NoError(t, err)

	defer w.Close()

	b.host = w.HostPath()

	return b
}

func (b bench) put(t *testing.T, path, content string) {
	t.Helper()
	_, _, err := b.Write(t.Context(), b.session, path, []byte(content), domain.FileCondition{})
	require.NoError(t, err)
}

func refused(t *testing.T, code string, err error) {
	t.Helper()
	require.True(t, domain.HasCode(err, code), "want %s, got %v", code, err)
}

func (b bench) upload(t *testing.T, limit int64, contents []io.Reader, names ...string) ([]domain.FileOutcome, error) {
	return b.Upload(t.Context(), b.session, "up", limit, func(add func(io.Reader) error) ([]string, error) {
		for _, c := range contents {
			if err := add(c); err != nil {
				return nil, err
			}
		}

		return names, nil
	})
}

func TestUploadFailsFileByFile(t *testing.T) {
	b := newBench(t, 0)
	rest := &counted{r: strings.NewReader(strings.Repeat("x", 200_000))}
	outcomes, err := b.upload(t, 100, []io.Reader{strings.NewReader("a"), rest, strings.NewReader("c")}, "a", "large", "c")
	require.NoError(t, err)
	require.Equal(t, "up/a", outcomes[0].Path)
	require.Equal(t, domain.FileChange{Path: "up/a", Change: "created"}, outcomes[0].Change)
	require.Equal(t, "large", outcomes[1].Path)
	refused(t, workspace.CodeTooLarge, outcomes[1].Err)
	require.Equal(t, "up/c", outcomes[2].Path)
	require.Equal(t, 200_000, rest.n, "the next part begins behind the whole of it")
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n

	return n, err
}

func TestWriteFile_interrupted(t *testing.T) {
	b := newBench(t, 0)
	cut := errors.New("cut off")
	_, err := b.Upload(t.Context(), b.session, "up", 1000, func(add func(io.Reader) error) ([]string, error) {
		require.NoError(t, add(strings.NewReader("whole")))
		return nil, add(io.MultiReader(strings.NewReader("half"), broken{cut}))
	})
	require.ErrorIs(t, err, cut)
	left, err := os.ReadDir(b.host)
	require.NoError(t, err)
	require.Empty(t, left)
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestQuota_limit(t *testing.T) {
	b := newBench(t, 1<<20)
	large := strings.Repeat("x", 600_000)
	b.put(t, "first", large)
	_, _, err := b.Write(t.Context(), b.session, "second", []byte(large), domain.FileCondition{})
	refused(t, workspace.CodeNoSpace, err)
	_, _, err = b.Write(t.Context(), b.session, "first", []byte(large[1:]), domain.FileCondition{})
	require.NoError(t, err, "a smaller one in its place")
	_, err = b.Copy(t.Context(), b.session, "first", "", false)
	refused(t, workspace.CodeNoSpace, err)
	outcomes, err := b.upload(t, 1<<20, []io.Reader{strings.NewReader(large), strings.NewReader("small")}, "large", "small")
	require.NoError(t, err)
	refused(t, workspace.CodeNoSpace, outcomes[0].Err)
	require.NoError(t, outcomes[1].Err)
	_, err = b.Delete(t.Context(), b.session, "first", "")
	require.NoError(t, err)
	b.put(t, "second", large)
}

// held adds up the content of all files.
func (b bench) held(t *testing.T) (total int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(b.host, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		info, err := d.Info()
		total += info.Size()

		return err
	}))

	return total
}

// Everything that writes at the same time stays within the limit together.
func TestQuota_concurrentWrites(t *testing.T) {
	const limit, each = 4 << 20, 256 << 10

	b := newBench(t, limit)
	b.put(t, "original", strings.Repeat("o", each))
	content := strings.Repeat("x", each)

	var (
		all  sync.WaitGroup
		kept atomic.Int64
	)

	begin := make(chan struct{})
	count := func(err error) {
		switch {
		case err == nil:
			kept.Add(1)
		case !domain.HasCode(err, workspace.CodeNoSpace):
			t.Error(err)
		}
	}

	for i := range 10 {
		all.Go(func() {
			<-begin

			outcomes, err := b.Upload(
				t.Context(),
				b.session,
				fmt.Sprintf("up%d", i),
				limit,
				func(add func(io.Reader) error) ([]string, error) {
					return []string{"a", "b"}, errors.Join(add(strings.NewReader(content)), add(strings.NewReader(content)))
				},
			)
			if err != nil {
				t.Error(err)
				return
			}

			for _, o := range outcomes {
				count(o.Err)
			}
		})
		all.Go(func() {
			<-begin

			_, _, err := b.Write(t.Context(), b.session, fmt.Sprintf("put%d", i), []byte(content), domain.FileCondition{})
			count(err)
		})
		all.Go(func() {
			<-begin

			_, err := b.Copy(t.Context(), b.session, "original", fmt.Sprintf("copy%d", i), false)
			count(err)
		})
	}

	close(begin)
	all.Wait()
	require.LessOrEqual(t, b.held(t), int64(limit))
	require.EqualValues(t, b.held(t), (kept.Load()+1)*each)

	// What was refused has left its space to others.
	require.NoError(t, os.RemoveAll(b.host+"/original"))

	for i := range 10 {
		require.NoError(t, os.RemoveAll(fmt.Sprintf("%s/up%d", b.host, i)))
		_, _ = b.Delete(t.Context(), b.session, fmt.Sprintf("put%d", i), "")
		_, _ = b.Delete(t.Context(), b.session, fmt.Sprintf("copy%d", i), "")
	}

	require.Zero(t, b.held(t))
	b.put(t, "whole", strings.Repeat("x", limit-(64<<10)))
}

// Two uploads that are on their way at the same time: the one that started first
// has no more right to the space than the one that filled it.
func TestQuota_slowUpload(t *testing.T) {
	b := newBench(t, 1<<20)
	half := strings.Repeat("x", 600<<10)
	outcomes, err := b.Upload(t.Context(), b.session, "", 1<<20, func(add func(io.Reader) error) ([]string, error) {
		second, err := b.upload(t, 1<<20, []io.Reader{strings.NewReader(half)}, "fast")
		require.NoError(t, err)
		require.NoError(t, second[0].Err)

		return []string{"slow"}, add(strings.NewReader(half))
	})
	require.NoError(t, err)
	refused(t, workspace.CodeNoSpace, outcomes[0].Err)
	require.EqualValues(t, len(half), b.held(t))
}

func TestZip_modesAndLinks(t *testing.T) {
	b := newBench(t, 0)
	b.put(t, "dir/run.sh", "#!/bin/sh\n")
	b.put(t, "dir/sub/data", strings.Repeat("data ", 10_000))
	b.put(t, "secret", "TOP-SECRET")
	require.NoError(t, os.Chmod(b.host+"/dir/run.sh", 0o750))

	for link, target := range map[string]string{
		"dir/sub/up": "../run.sh", "dir/out": "../secret", "dir/etc": "/etc/passwd", "dir/wide": "sub/../../secret", "alias": "dir",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(b.host, link)))
	}

	require.NoError(t, unix.Mkfifo(b.host+"/dir/pipe", 0o600))
	write, err := b.Zip(t.Context(), b.session, "alias")
	require.NoError(t, err)

	var packed bytes.Buffer
	require.NoError(t, write(t.Context(), &packed))
	require.Less(t, packed.Len(), 10_000)
	archive, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	require.NoError(t, err)

	got := map[string]fs.FileMode{}
	for _, f := range archive.File {
		got[f.Name] = f.Mode()
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NotContains(t, string(content), "TOP-SECRET")

		if f.Name == "sub/up" {
			require.Equal(t, "../run.sh", string(content))
		}
	}

	require.Equal(t, map[string]fs.FileMode{
		"run.sh": 0o750, "sub/": 0o755 | fs.ModeDir, "sub/data": 0o644, "sub/up": 0o777 | fs.ModeSymlink,
	}, got)

	_, err = b.Zip(t.Context(), b.session, "secret")
	refused(t, workspace.CodeNotDirectory, err)
	_, err = b.Zip(t.Context(), b.session, "none")
	refused(t, domain.CodeFileNotFound, err)
	_, err = b.Zip(t.Context(), b.session, "dir/etc")
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, write(ctx, io.Discard), context.Canceled)
}

// A file that a command continues writing is packed as long as it was.
func TestZipOfAGrowingFileEnds(t *testing.T) {
	b := newBench(t, 0)
	b.put(t, "log", "begin")
	write, err := b.Zip(t.Context(), b.session, "")
	require.NoError(t, err)

	stop := make(chan struct{})

	grown := make(chan struct{})
	go func() {
		defer close(grown)

		f, err := os.OpenFile(b.host+"/log", os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()

		for chunk := make([]byte, 1<<20); ; {
			select {
			case <-stop:
				return
			default:
				if info, err := f.Stat(); err != nil || info.Size() > 64<<20 {
					return
				}

				_, _ = f.Write(chunk)
			}
		}
	}()

	require.NoError(t, write(t.Context(), io.Discard))
	close(stop)
	<-grown
}

func TestRenameAndShareStayInside(t *testing.T) {
	b := newBench(t, 0)
	b.put(t, "dir/f", "f")
	require.NoError(t, os.Symlink("/etc", b.host+"/etc"))
	_, _, err := b.Rename(t.Context(), b.session, "etc/passwd", "x")
	refused(t, domain.CodePathOutside, err)
	to, changes, err := b.Rename(t.Context(), b.session, "etc", "renamed")
	require.NoError(t, err, "the link itself")
	require.Equal(t, "renamed", to)
	require.Equal(t, []domain.FileChange{{Path: "etc", Change: "deleted"}, {Path: "renamed", Change: "created"}}, changes)

	for _, folder := range []string{"..", "/x", "a/../../.."} {
		_, _, err = b.Share(t.Context(), b.session, "dir", "n", folder)
		refused(t, domain.CodePathOutside, err)
	}

	_, _, err = b.Share(t.Context(), b.session, "renamed", "n", "")
	refused(t, domain.CodePathOutside, err)
	link, change, err := b.Share(t.Context(), b.session, "/workspace/dir/f", "", "")
	require.NoError(t, err)
	require.Equal(t, domain.FileLink{Path: ".share/f", Target: "dir/f"}, link)
	require.Equal(t, domain.FileChange{Path: ".share/f", Change: "created"}, change)
}

// A name that is not UTF-8 cannot be given; a file that a command gave one can be renamed.
func TestFiles_namesAreUTF8(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1<<20)
	b.put(t, "a", "x")
	require.NoError(t, os.WriteFile(filepath.Join(b.host, "\xff"), nil, 0o644))

	_, _, err := b.Write(t.Context(), b.session, "d\xff/b", nil, domain.FileCondition{})
	refused(t, workspace.CodeBadPath, err)
	_, _, err = b.Rename(t.Context(), b.session, "a", "\xff")
	refused(t, workspace.CodeBadPath, err)
	_, err = b.Copy(t.Context(), b.session, "a", "c\xff", false)
	refused(t, workspace.CodeBadPath, err)
	_, err = b.Copy(t.Context(), b.session, "\xff", "", false)
	refused(t, workspace.CodeBadPath, err)
	_, _, err = b.Share(t.Context(), b.session, "a", "l\xff", "")
	refused(t, workspace.CodeBadPath, err)
	_, _, err = b.Share(t.Context(), b.session, "\xff", "", "")
	refused(t, workspace.CodeBadPath, err)

	outcomes, err := b.upload(t, 1<<20, []io.Reader{strings.NewReader("x")}, "u\xff")
	require.NoError(t, err)
	refused(t, workspace.CodeBadPath, outcomes[0].Err)
	require.Equal(t, domain.Invalid, domain.AsError(outcomes[0].Err).Kind)
	_, err = b.Upload(t.Context(), b.session, "up\xff", 1<<20, func(func(io.Reader) error) ([]string, error) { return nil, nil })
	refused(t, workspace.CodeBadPath, err)

	_, _, err = b.Rename(t.Context(), b.session, "\xff", "good")
	require.NoError(t, err)
}
