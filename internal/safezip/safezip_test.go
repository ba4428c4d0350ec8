package safezip_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/safezip"
)

// member is one entry of an archive to make.
type member struct {
	name    string
	content string
	change  func(*zip.FileHeader)
}

func mode(m fs.FileMode) func(*zip.FileHeader) {
	return func(h *zip.FileHeader) { h.SetMode(m) }
}

func archive(t testing.TB, members ...member) []byte {
	t.Helper()

	var out bytes.Buffer

	w := zip.NewWriter(&out)

	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		h.SetMode(0o644)

		if m.change != nil {
			m.change(h)
		}

		f, err := w.CreateHeader(h)
		require.NoError(t, err)

		if m.content != "" {
			_, err = f.Write([]byte(m.content))
			require.NoError(t, err)
		}
	}

	require.NoError(t, w.Close())

	return out.Bytes()
}

func open(data []byte, limits safezip.Limits) (*safezip.Archive, error) {
	return safezip.Open(bytes.NewReader(data), int64(len(data)), limits)
}

func refused(t *testing.T, err error, reason safezip.Reason) *safezip.Error {
	t.Helper()

	e, ok := errors.AsType[*safezip.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, reason, e.Reason, e.Text)
	require.NotEmpty(t, e.Text)

	return e
}

func TestAGoodArchiveIsReadWhole(t *testing.T) {
	t.Parallel()
	data := archive(t,
		member{name: "SKILL.md", content: "hello"},
		member{name: "empty/", change: mode(fs.ModeDir | 0o755)},
		member{name: "scripts/run.sh", content: "#!/bin/sh\n", change: mode(0o755)},
		member{name: "scripts/ü.txt", content: strings.Repeat("stored", 1000), change: func(h *zip.FileHeader) { h.Method = zip.Store }},
	)
	a, err := open(data, safezip.SkillPackage)
	require.NoError(t, err)
	require.Equal(t, []string{"empty"}, a.Directories)
	require.EqualValues(t, 5+10+6000, a.Expanded)
	require.Len(t, a.Files, 3)
	require.Equal(t, fs.FileMode(0o755), a.Files[1].Mode)
	require.Equal(t, fs.FileMode(0o644), a.Files[2].Mode)

	for _, f := range a.Files {
		content, err := f.Open()
		require.NoError(t, err)
		streamed, err := io.ReadAll(content)
		require.NoError(t, err)
		require.NoError(t, content.Close())

		whole, err := f.ReadAll(1 << 20)
		require.NoError(t, err)
		require.Equal(t, whole, streamed)
		require.Len(t, whole, int(f.Size))
	}

	_, err = a.Files[2].ReadAll(5999)
	refused(t, err, safezip.Expands)
}

func TestArchive_concurrentReads(t *testing.T) {
	t.Parallel()

	members := make([]member, 20)
	for i := range members {
		members[i] = member{name: fmt.Sprint(i), content: strings.Repeat(fmt.Sprint(i), 50_000)}
	}

	a, err := open(archive(t, members...), safezip.SkillPackage)
	require.NoError(t, err)

	var all sync.WaitGroup
	for i, f := range a.Files {
		all.Go(func() {
			data, err := f.ReadAll(1 << 20)
			if err != nil || string(data) != members[i].content {
				t.Errorf("file %d: %v", i, err)
			}
		})
	}

	all.Wait()
}

func TestNamesThatAreRefused(t *testing.T) {
	t.Parallel()

	for _, name := range []string{
		"../x", "a/../../x", "/etc/passwd", "a//b", "././a", ".", "./../a", "a/.", "a\\b", "C:/x", "c:x", "a\x00b", "a\nb", "\x7f", "..",
		"a\xff", strings.Repeat("x", 256), strings.Repeat("a/", 2100) + "a", "a/../b",
	} {
		_, err := open(archive(t, member{name: name, content: "x"}), safezip.SkillPackage)
		refused(t, err, safezip.UnsafeName)
	}

	require.Empty(t, safezip.CheckName("a b/c…/.hidden/..dots"))
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()

	for _, m := range []member{
		{name: "link", content: "/etc/passwd", change: mode(fs.ModeSymlink | 0o777)},
		{name: "pipe", change: mode(fs.ModeNamedPipe | 0o644)},
		{name: "device", change: mode(fs.ModeDevice | 0o644)},
		{name: "socket", change: mode(fs.ModeSocket | 0o644)},
		{name: "linkdir/", change: mode(fs.ModeSymlink | 0o777)},
	} {
		_, err := open(archive(t, member{name: "a", content: "a"}, m), safezip.SkillPackage)
		refused(t, err, safezip.NotRegular)
	}

	_, err := open(archive(t, member{name: "a", content: "a", change: func(h *zip.FileHeader) { h.Flags |= 1 }}), safezip.SkillPackage)
	refused(t, err, safezip.CannotUnpack)
}

func TestNamesThatLieOnOneAnother(t *testing.T) {
	t.Parallel()

	for _, pair := range [][2]string{
		{"a", "a"},
		{"a", "A"},
		{"a", "./a"},
		{"a", "a/b"},
		{"a/b", "a"},
		{"a/", "a"},
		{"a", "a/"},
		{"x/a", "X/A"},
		{"a", "A/b"},
		{"\u00fc", "u\u0308"}, // composed and not
	} {
		members := []member{}

		for _, name := range pair {
			m := member{name: name, content: "x"}
			if strings.HasSuffix(name, "/") {
				m = member{name: name, change: mode(fs.ModeDir | 0o755)}
			}

			members = append(members, m)
		}

		_, err := open(archive(t, members...), safezip.SkillPackage)
		refused(t, err, safezip.NameTwice)
	}

	exact := safezip.SkillPackage
	exact.FoldNames = false
	_, err := open(archive(t, member{name: "a", content: "x"}, member{name: "A", content: "x"}), exact)
	require.NoError(t, err)
	_, err = open(
		archive(t, member{name: "dir/", change: mode(fs.ModeDir | 0o755)}, member{name: "dir/a", content: "x"}),
		safezip.SkillPackage,
	)
	require.NoError(t, err)
}

func TestBombs(t *testing.T) {
	t.Parallel()

	zeros := strings.Repeat("\x00", 2<<20)
	_, err := open(archive(t, member{name: "a", content: zeros}), safezip.SkillPackage)
	refused(t, err, safezip.Expands)

	small := safezip.Limits{Expanded: 3 << 20}
	_, err = open(archive(t, member{name: "a", content: zeros}), small)
	require.NoError(t, err)
	_, err = open(archive(t, member{name: "a", content: zeros}, member{name: "b", content: zeros}), small)
	refused(t, err, safezip.Expands)
	_, err = open(archive(t, member{name: "a", content: zeros}), safezip.Limits{File: 1 << 20})
	refused(t, err, safezip.Expands)

	many := make([]member, 501)
	for i := range many {
		many[i] = member{name: fmt.Sprint(i), content: "x"}
	}

	_, err = open(archive(t, many...), safezip.SkillPackage)
	refused(t, err, safezip.TooManyFiles)
	_, err = open(archive(t, many[:500]...), safezip.SkillPackage)
	require.NoError(t, err)

	flood := make([]member, 60_000)
	for i := range flood {
		flood[i] = member{name: fmt.Sprint(i), change: func(h *zip.FileHeader) { h.Method = zip.Store }}
	}

	_, err = open(archive(t, flood...), safezip.SkillPackage)
	refused(t, err, safezip.TooManyFiles)

	_, err = safezip.Open(bytes.NewReader(nil), 50<<20+1, safezip.SkillPackage)
	refused(t, err, safezip.TooLarge)
}

// TestPromisesAreHeld changes what the directory says of a file's size.
func TestPromisesAreHeld(t *testing.T) {
	t.Parallel()

	content := strings.Repeat("0123456789", 1000)
	for _, claimed := range []uint32{1, 9_999, 10_001, 500_000} {
		data := archive(t, member{name: "a", content: content})
		central := bytes.Index(data, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(data[central+24:], claimed)
		a, err := open(data, safezip.SkillPackage)
		require.NoError(t, err)
		_, err = a.Files[0].ReadAll(1 << 20)
		refused(t, err, safezip.ContentDamaged)
		reader, err := a.Files[0].Open()
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, reader)
		require.LessOrEqual(t, n, int64(claimed))
		refused(t, err, safezip.ContentDamaged)
	}

	data := archive(t, member{name: "a", content: content, change: func(h *zip.FileHeader) { h.Method = zip.Store }})
	data[bytes.Index(data, []byte("0123456789"))] ^= 1
	a, err := open(data, safezip.SkillPackage)
	require.NoError(t, err)
	_, err = a.Files[0].ReadAll(1 << 20)
	refused(t, err, safezip.ContentDamaged)
}

// TestSharedDataIsRefused lets many members name the same bytes.
func TestSharedDataIsRefused(t *testing.T) {
	t.Parallel()

	content := make([]byte, 100_000)
	for i := range content {
		content[i] = byte(i * i >> 3)
	}

	members := []member{}

	for i := range 10 {
		m := member{name: fmt.Sprint(i)}
		if i == 0 {
			m = member{name: "0", content: string(content), change: func(h *zip.FileHeader) { h.Method = zip.Store }}
		}

		members = append(members, m)
	}

	data := archive(t, members...)

	first := bytes.Index(data, []byte("PK\x01\x02"))
	for at := first; ; {
		next := bytes.Index(data[at+4:], []byte("PK\x01\x02"))
		if next < 0 {
			break
		}

		at += 4 + next
		copy(data[at+10:at+12], data[first+10:]) // method
		copy(data[at+16:at+28], data[first+16:]) // checksum and sizes
		copy(data[at+42:at+46], data[first+42:]) // where the data lies
	}

	_, err := open(data, safezip.SkillPackage)
	refused(t, err, safezip.NotAnArchive)
}

// A program that reads the archive as a stream finds what the directory says, and nothing else.
func TestLocalHeadersAreThoseOfTheDirectory(t *testing.T) {
	t.Parallel()

	good := archive(t, member{name: "a/b.txt", content: "text"}, member{name: "c.txt", content: strings.Repeat("more", 100)})
	_, err := open(good, safezip.Limits{})
	require.NoError(t, err)

	renamed := bytes.Replace(good, []byte("a/b.txt"), []byte("../evil"), 1) // the first is the header before the data
	_, err = open(renamed, safezip.Limits{})
	require.ErrorContains(t, refused(t, err, safezip.NotAnArchive), "another name")

	_, err = open(append([]byte("#!/bin/sh\nexit\n"), good...), safezip.Limits{})
	refused(t, err, safezip.NotAnArchive)

	// A member that the directory does not list, between two others and after the last one.
	hidden := archive(t, member{name: "hidden", content: "x"})
	hidden = hidden[:bytes.Index(hidden, []byte("PK\x01\x02"))]

	for _, at := range [][]byte{[]byte("PK\x03\x04"), []byte("PK\x01\x02")} {
		place := bytes.LastIndex(good, at)
		if at[2] == 1 {
			place = bytes.Index(good, at)
		}

		_, err = open(moved(t, good, place, hidden), safezip.Limits{})
		refused(t, err, safezip.NotAnArchive)
	}
}

// moved puts bytes into an archive, and corrects the offsets of its directory.
func moved(t *testing.T, archive []byte, place int, more []byte) []byte {
	t.Helper()

	changed := slices.Concat(archive[:place], more, archive[place:])
	directory := bytes.Index(archive, []byte("PK\x01\x02")) + len(more)
	end := bytes.LastIndex(changed, []byte("PK\x05\x06"))
	binary.LittleEndian.PutUint32(changed[end+16:], uint32(directory))

	for at := directory; at < end; {
		offset := changed[at+42:]
		if int(binary.LittleEndian.Uint32(offset)) >= place {
			binary.LittleEndian.PutUint32(offset, binary.LittleEndian.Uint32(offset)+uint32(len(more)))
		}

		at += 46 + int(binary.LittleEndian.Uint16(changed[at+28:])) + int(binary.LittleEndian.Uint16(changed[at+30:]))
	}

	return changed
}

func TestWhatIsNoArchive(t *testing.T) {
	t.Parallel()

	good := archive(t, member{name: "a", content: "x"})
	for _, data := range [][]byte{
		nil, []byte("PK"), []byte("hello"), good[:len(good)/2], bytes.Repeat([]byte("PK\x05\x06"), 100),
		archive(t),
	} {
		_, err := open(data, safezip.SkillPackage)
		refused(t, err, safezip.NotAnArchive)
	}
}

// FuzzOpen holds what every archive must keep: no panic, no name that leaves,
// no more content than was promised, and only errors of this package.
func FuzzOpen(f *testing.F) {
	f.Add(archive(f, member{name: "a", content: "x"}, member{name: "b/c", content: strings.Repeat("y", 5000)}))
	f.Add(archive(f, member{name: "../a", content: "x"}))
	f.Add(archive(f, member{name: "l", content: "t", change: mode(fs.ModeSymlink)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := safezip.Limits{Archive: 1 << 20, Files: 20, Expanded: 1 << 20, Ratio: 100, FoldNames: true}

		a, err := open(data, limits)
		if err != nil {
			if _, ok := errors.AsType[*safezip.Error](err); !ok {
				t.Fatalf("an error of another kind: %v", err)
			}

			return
		}

		if len(a.Files) > limits.Files || a.Expanded > limits.Expanded {
			t.Fatal("the limits were passed")
		}

		for _, file := range a.Files {
			if !fs.ValidPath(file.Name) {
				t.Fatalf("%q got through", file.Name)
			}

			content, err := file.Open()
			if err != nil {
				continue
			}

			if n, _ := io.Copy(io.Discard, content); n > file.Size {
				t.Fatalf("%d bytes of a file of %d", n, file.Size)
			}

			_ = content.Close()
		}
	})
}

// Long names need directories that are not listed: each takes memory.
func TestArchive_tooManyDirectories(t *testing.T) {
	t.Parallel()

	members := make([]member, 20)
	for i := range members {
		members[i] = member{name: fmt.Sprintf("%d/", i) + strings.Repeat("d/", 1000) + "f", content: "x"}
	}

	limits := safezip.SkillPackage
	_, err := open(archive(t, members...), limits)
	refused(t, err, safezip.TooManyFiles)

	limits.Files = 10_000
	_, err = open(archive(t, members...), limits)
	require.NoError(t, err)
}
