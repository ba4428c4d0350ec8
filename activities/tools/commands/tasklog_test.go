package commands

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// buffer is an open log file in memory.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.Buffer.Write(p)
}

func (b *buffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.String()
}

func (*buffer) Close() error { return nil }

func TestTaskLog(t *testing.T) {
	t.Parallel()

	file := &buffer{}
	log := NewTaskLog(file, 1<<20, func() { t.Error("full") })
	none, last := log.Written()
	require.Zero(t, none)
	require.True(t, last.IsZero())

	for _, piece := range []string{"one\ntw", "o\n\n", "caf\xe9\r\n", "€"[:1], "€"[1:] + "\n", "no end"} {
		n, err := fmt.Fprint(log.Stdout(), piece)
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
	}

	fmt.Fprint(log.Stderr(), "trouble\x00\n")
	require.NoError(t, log.Close())
	require.Equal(t, "out| one\nout| two\nout| \nout| caf\uFFFD\nout| €\nerr| trouble\uFFFD\nout| no end\n", file.text())

	written, last := log.Written()
	require.EqualValues(t, file.Len(), written)
	require.False(t, last.IsZero())
}

func TestTaskLog_breaksLongLines(t *testing.T) {
	t.Parallel()

	file := &buffer{}
	log := NewTaskLog(file, 1<<20, func() {})

	long := strings.Repeat("é€", 10_000)
	for rest := long + "\n"; rest != ""; { // in pieces that cut characters in two
		n := min(len(rest), 777)
		fmt.Fprint(log.Stdout(), rest[:n])
		rest = rest[n:]
	}

	require.NoError(t, log.Close())

	for line := range strings.Lines(file.text()) {
		require.LessOrEqual(t, len(line), maxTaskLine+len(outMark)+1)
		require.NotContains(t, line, "\uFFFD")
	}

	joined := strings.ReplaceAll(strings.ReplaceAll(file.text(), "\n", ""), outMark, "")
	require.True(t, joined == long, "nothing is lost")
}

func TestTaskLog_showsUnfinishedLine(t *testing.T) {
	t.Parallel()

	file := &buffer{}
	log := NewTaskLog(file, 1<<20, func() {})
	fmt.Fprint(log.Stdout(), "Continue? ")
	require.Eventually(t, func() bool { return file.text() == "out| Continue? \n" }, time.Minute, 20*time.Millisecond)
	require.NoError(t, log.Close())
}

func TestTaskLog_isBounded(t *testing.T) {
	t.Parallel()

	file := &buffer{}
	full := 0

	log := NewTaskLog(file, 100, func() { full++ })
	for range 1000 {
		fmt.Fprintln(log.Stdout(), "0123456789")
	}

	require.NoError(t, log.Close())
	require.Equal(t, 1, full)
	require.LessOrEqual(t, file.Len(), 100)
	require.True(t, strings.HasSuffix(file.text(), "0123456789\n"), "only whole lines")
}

func TestReadTaskLog(t *testing.T) {
	t.Parallel()

	const log = "out| 1\nerr| 2\nwithout a mark\nout| 4\nout| being writ"
	for tail, want := range map[int][]string{
		1: {"4"}, 2: {"without a mark", "4"}, 3: {"2", "without a mark", "4"}, 4: {"1", "2", "without a mark", "4"},
		100: {"1", "2", "without a mark", "4"},
	} {
		out, err := ReadTaskLog(t.Context(), strings.NewReader(log), tail)
		require.NoError(t, err)
		require.Equal(t, want, out.Lines)
		require.Equal(t, []string{"stdout", "stderr", "", "stdout"}[4-len(want):], out.Markers)
		require.Equal(t, tail < 4, out.Truncated)
		require.EqualValues(t, 4, out.TotalLines)
		require.EqualValues(t, len("out| 1\nerr| 2\nwithout a mark\nout| 4\n"), out.NextOffset)
	}

	none, err := ReadTaskLog(t.Context(), strings.NewReader(""), 10)
	require.NoError(t, err)
	require.NotNil(t, none.Lines)
	require.False(t, none.Truncated)
}

func TestReadTaskLog_bounds(t *testing.T) {
	t.Parallel()

	long := outMark + strings.Repeat("x", maxTaskLine-len(outMark)-1) + "\n"
	out, err := ReadTaskLog(t.Context(), strings.NewReader(strings.Repeat(long, 5000)), 5000)
	require.NoError(t, err)
	require.EqualValues(t, 5000, out.TotalLines)
	require.EqualValues(t, 5000*len(long), out.NextOffset)
	require.Len(t, out.Lines, maxTaskTail/len(long)-1, "whole lines that are within the bytes")
	require.Equal(t, long[len(outMark):len(long)-1], out.Lines[0])
	require.True(t, out.Truncated)

	out, err = ReadTaskLog(t.Context(), strings.NewReader(strings.Repeat("x", maxTaskTail+logBlock)+"\nlast\n"), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"last"}, out.Lines, "a line that no task log has is left out")
	require.EqualValues(t, 2, out.TotalLines)

	ended, end := context.WithCancel(t.Context())
	end()

	_, err = ReadTaskLog(ended, strings.NewReader(long), 1)
	require.ErrorIs(t, err, context.Canceled)
}
