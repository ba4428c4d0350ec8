package builtin

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
	"everloop/domain"
)

func TestRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 7, 5))))
	b.File("a.txt", "one\r\ntwo\nthree")
	b.File("empty.txt", "")
	b.File("long.txt", strings.Repeat("é", 2001)+"\nnext\n")
	b.File("full.txt", strings.Repeat("é", 2000)+"\nnext\n")
	b.File("many.txt", strings.Repeat("line\n", 2500))
	b.File("wide.txt", strings.Repeat(strings.Repeat("w", 1990)+"\n", 100))
	b.File("shot.png", picture.String())
	b.File("data.bin", "MZ\x00\x01\x02")
	b.File("latin.txt", "caf\xe9\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(b.Session.Root, "link")))

	for name, tc := range map[string]struct {
		arguments any
		want      string
		isError   bool
	}{
		"numbers lines": {toolstest.Args{"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n     3\tthree\n", false},
		"path below the root": {
			toolstest.Args{"file_path": "./x/../a.txt", "limit": 1},
			"     1\tone\n\n[Lines 1 to 1 are shown. There is more: go on with offset 2.]\n",
			false,
		},
		"part": {
			toolstest.Args{"file_path": "a.txt", "offset": 2, "limit": 1},
			"     2\ttwo\n\n[Lines 2 to 2 are shown. There is more: go on with offset 3.]\n", false,
		},
		"offset 0 is the start": {
			toolstest.Args{"file_path": "a.txt", "offset": 0, "limit": 9}, "     1\tone\n     2\ttwo\n     3\tthree\n", false,
		},
		"offset behind the end": {
			toolstest.Args{"file_path": "a.txt", "offset": 9},
			"a.txt has 3 lines, so there is nothing at offset 9.",
			true,
		},
		"empty": {toolstest.Args{"file_path": "empty.txt"}, "(empty.txt is empty.)", false},
		"full line": {
			toolstest.Args{"file_path": "full.txt"},
			"     1\t" + strings.Repeat("é", 2000) + "\n     2\tnext\n",
			false,
		},
		"cut line": {
			toolstest.Args{"file_path": "long.txt"},
			"     1\t" + strings.Repeat("é", 2000) + " [… cut: the line has 4003 bytes]\n     2\tnext\n",
			false,
		},
		"picture": {
			toolstest.Args{"file_path": "shot.png"},
			fmt.Sprintf("shot.png is an image (image/png, 7 × 5 pixels, %d bytes). Its picture cannot be shown as text.", picture.Len()),
			false,
		},
		"binary": {
			toolstest.Args{"file_path": "data.bin"},
			"data.bin is a binary file (application/octet-stream, 5 bytes); Read shows text only. Use Bash with a program that " +
				"understands it.",
			true,
		},
		"not UTF-8":               {toolstest.Args{"file_path": "latin.txt"}, "     1\tcaf\uFFFD\n", false},
		"missing":                 {toolstest.Args{"file_path": "none.txt"}, "the file does not exist.", true},
		"outside":                 {toolstest.Args{"file_path": "../x"}, "../x leaves the workspace.", true},
		"absolute outside":        {toolstest.Args{"file_path": "/etc/passwd"}, "/etc/passwd leaves the workspace.", true},
		"link that leads outside": {toolstest.Args{"file_path": "link"}, "the path leaves the workspace.", true},
		"NUL in the path":         {toolstest.Args{"file_path": "a\x00b"}, "the path holds a zero byte.", true},
		"directory":               {toolstest.Args{"file_path": "."}, ". is not a regular file.", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := b.Do("Read", tc.arguments)
			require.Equal(t, tc.want, result.Output)
			require.Equal(t, tc.isError, result.IsError)
		})
	}

	t.Run("default number of lines", func(t *testing.T) {
		t.Parallel()

		result := b.Do("Read", toolstest.Args{"file_path": "many.txt"})
		require.Contains(t, result.Output, "  2000\tline\n")
		require.NotContains(t, result.Output, "  2001\tline\n")
		require.Contains(t, result.Output, "go on with offset 2001")
	})
	t.Run("limit of characters", func(t *testing.T) {
		t.Parallel()

		result := b.Do("Read", toolstest.Args{"file_path": "wide.txt"})
		require.LessOrEqual(t, tools.Length(result.Output), tools.MaxResult)
		require.Contains(t, result.Output, "Lines 1 to 49 are shown")
		require.Empty(t, filesBelow(t, b, tools.OutputDir), "Read pages by itself and keeps no copy")
	})
}

func TestRead_pathInsideSandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, toolstest.RealSandbox(t))
	b.File("dir/a.txt", "x\n")
	where := strings.TrimSpace(b.Do("Bash", toolstest.Args{"command": "pwd"}).Output)
	require.Equal(t, "     1\tx\n", b.Do("Read", toolstest.Args{"file_path": where + "/dir/a.txt"}).Output)
	require.True(t, b.Do("Read", toolstest.Args{"file_path": where + "-other/a.txt"}).IsError)
}

func filesBelow(t *testing.T, b *toolstest.Bench, dir string) []string {
	t.Helper()

	found, err := filepath.Glob(filepath.Join(b.Session.Root, dir, "*"))
	require.NoError(t, err)

	return found
}

func TestWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	made := b.Do("Write", toolstest.Args{"file_path": "dir/new.txt", "content": "a\nb"})
	require.Equal(t, "Made dir/new.txt (2 lines, 3 bytes).", made.Output)
	require.Equal(t, []domain.FileChange{{Path: "dir/new.txt", Change: tools.FileCreated}}, made.Changed)
	require.Equal(t, "a\nb", b.Content("dir/new.txt"))

	again := b.Do("Write", toolstest.Args{"file_path": "dir/new.txt", "content": "c\n"})
	require.False(t, again.IsError, "what this session wrote counts as read")
	require.Equal(t, []domain.FileChange{{Path: "dir/new.txt", Change: tools.FileModified}}, again.Changed)

	b.File("old.txt", "precious\n")
	refused := b.Do("Write", toolstest.Args{"file_path": "old.txt", "content": ""})
	require.True(t, refused.IsError)
	require.Contains(t, refused.Output, "was not read")
	require.Empty(t, refused.Changed)
	require.Equal(t, "precious\n", b.Content("old.txt"))

	b.Do("Read", toolstest.Args{"file_path": "old.txt"})
	touch(b, "old.txt", "changed by another\n")
	refused = b.Do("Write", toolstest.Args{"file_path": "old.txt", "content": ""})
	require.Contains(t, refused.Output, "has changed since it was read")
	b.Do("Read", toolstest.Args{"file_path": "old.txt"})
	require.False(t, b.Do("Write", toolstest.Args{"file_path": "./old.txt", "content": ""}).IsError)
	require.Empty(t, b.Content("old.txt"))

	require.True(t, b.Do("Write", toolstest.Args{"file_path": "dir", "content": ""}).IsError)
	require.True(t, b.Do("Write", toolstest.Args{"file_path": "../x", "content": ""}).IsError)
	require.True(t, b.Do("Write", toolstest.Args{"file_path": "big", "content": strings.Repeat("x", maxWritten+1)}).IsError)
}

// touch changes a file so that its version differs whatever the clock's grain.
func touch(b *toolstest.Bench, name, content string) {
	b.T.Helper()
	b.File(name, content)
	later := time.Now().Add(time.Duration(len(content)+1) * time.Second)
	require.NoError(b.T, os.Chtimes(filepath.Join(b.Session.Root, name), later, later))
}

func TestEdit(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		before    string
		arguments toolstest.Args
		after     string // empty: refused
		says      string
	}{
		"one": {
			"a\nb\nc\n",
			toolstest.Args{"old_string": "b", "new_string": "B"},
			"a\nB\nc\n",
			"Changed f.txt (1 replacement):\n--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		},
		"deletes": {"a\nb\nc\n", toolstest.Args{"old_string": "b\n", "new_string": ""}, "a\nc\n", "-b\n"},
		"all": {
			"x x\nx\n", toolstest.Args{"old_string": "x", "new_string": "yy", "replace_all": true}, "yy yy\nyy\n", "3 replacements",
		},
		"replacement holds old": {
			"x x\n",
			toolstest.Args{"old_string": "x", "new_string": "xx", "replace_all": true},
			"xx xx\n",
			"2 replacements",
		},
		"windows lines": {
			"a\r\nb\r\nc\r\n", toolstest.Args{"old_string": "a\nb", "new_string": "1\n2\n3"}, "1\r\n2\r\n3\r\nc\r\n", "1 replacement",
		},
		"no end of line":         {"a", toolstest.Args{"old_string": "a", "new_string": "b"}, "b", "No newline"},
		"bytes that are no text": {"caf\xe9 one", toolstest.Args{"old_string": "one", "new_string": "two"}, "caf\xe9 two", "\uFFFD two"},
		"no match":               {"a\n", toolstest.Args{"old_string": "z", "new_string": "b"}, "", "does not occur"},
		"several":                {"a a a\n", toolstest.Args{"old_string": "a", "new_string": "b"}, "", "occurs 3 times"},
		"identical":              {"a\n", toolstest.Args{"old_string": "a", "new_string": "a"}, "", "identical"},
		"nothing to look for":    {"a\n", toolstest.Args{"old_string": "", "new_string": "a"}, "", "at least 1 characters"},
		"binary":                 {"a\x00b", toolstest.Args{"old_string": "a", "new_string": "b"}, "", "binary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.File("f.txt", tc.before)
			b.Do("Read", toolstest.Args{"file_path": "f.txt"})
			result := b.Do("Edit", toolstest.With(toolstest.Args{"file_path": "f.txt"}, tc.arguments))
			require.Contains(t, result.Output, tc.says)
			require.Equal(t, tc.after == "", result.IsError)

			if tc.after == "" {
				require.Equal(t, tc.before, b.Content("f.txt"))
				require.Empty(t, result.Changed)

				return
			}

			require.Equal(t, tc.after, b.Content("f.txt"))
			require.Equal(t, []domain.FileChange{{Path: "f.txt", Change: tools.FileModified}}, result.Changed)
		})
	}
}

func TestEdit_requiresVersionRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	change := toolstest.Args{"file_path": "f.txt", "old_string": "a", "new_string": "b"}
	require.Contains(t, b.Do("Edit", change).Output, "does not exist")
	b.File("f.txt", "a\n")
	require.Contains(t, b.Do("Edit", change).Output, "was not read")
	b.Do("Read", toolstest.Args{"file_path": "f.txt"})
	touch(b, "f.txt", "a but more\n")
	require.Contains(t, b.Do("Edit", change).Output, "has changed since")
	require.Equal(t, "a but more\n", b.Content("f.txt"))
	b.Do("Read", toolstest.Args{"file_path": "f.txt"})
	require.False(t, b.Do("Edit", change).IsError)
	// Edits that follow one another need no Read between them.
	require.False(t, b.Do("Edit", toolstest.Args{"file_path": "f.txt", "old_string": "more", "new_string": "less"}).IsError)
	require.Equal(t, "b but less\n", b.Content("f.txt"))
}

func TestEdit_concurrentEditsLoseNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	const n = 24

	var before strings.Builder
	for i := range n {
		fmt.Fprintf(&before, "line-%03d old\n", i)
	}

	b.File("f.txt", before.String())
	b.Do("Read", toolstest.Args{"file_path": "f.txt"})

	var group sync.WaitGroup

	failures := make(chan string, n)
	for i := range n {
		group.Go(func() {
			result := b.Do("Edit", toolstest.Args{
				"file_path": "f.txt", "old_string": fmt.Sprintf("line-%03d old", i), "new_string": fmt.Sprintf("line-%03d new", i),
			})
			if result.IsError {
				failures <- result.Output
			}
		})
	}

	group.Wait()
	require.Empty(t, failures)
	require.Equal(t, strings.ReplaceAll(before.String(), "old", "new"), b.Content("f.txt"))
}

func TestWrite_concurrentWritesLeaveOneWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			b.Do("Write", toolstest.Args{"file_path": "f.txt", "content": strings.Repeat(fmt.Sprint(i), 1<<16)})
		})
	}

	group.Wait()

	content := b.Content("f.txt")
	require.Equal(t, strings.Repeat(content[:1], 1<<16), content)
}
