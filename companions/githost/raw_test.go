package githost_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t *testing.T, id string) []byte {
	t.Helper()

	raw, err := hex.DecodeString(id)
	require.NoError(t, err)

	return raw
}

// object writes any object, valid or not.
func (c *clone) object(content, kind string) string {
	c.t.Helper()
	return c.input(content, "hash-object", "-w", "--stdin", "--literally", "-t", kind)
}

func (c *clone) input(content string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, gitEnv(), strings.NewReader(content)
	out, err := cmd.Output()
	require.NoError(c.t, err)

	return strings.TrimSuffix(string(out), "\n")
}

// pack makes a pack of one object.
func (c *clone) pack(id string) []byte {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", "pack-objects", "--stdout", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, gitEnv(), strings.NewReader(id+"\n")
	out, err := cmd.Output()
	require.NoError(c.t, err)

	return out
}

// pushRaw sends a push that creates a reference, as a client would that checks nothing,
// and returns the answer.
func (w *world) pushRaw(repo, ref, id string, pack []byte) string {
	w.t.Helper()

	var body bytes.Buffer

	line := strings.Repeat("0", 40) + " " + id + " " + ref + "\x00report-status side-band-64k\n"
	fmt.Fprintf(&body, "%04x%s0000", len(line)+4, line)
	body.Write(pack)
	got := w.send(http.MethodPost, w.url+"/"+repo+".git/git-receive-pack", "ann",
		map[string]string{"Content-Type": "application/x-git-receive-pack-request"}, body.Bytes())
	require.Equal(w.t, 200, got.status, string(got.body))

	return string(got.body)
}

// newFile writes a file of zeros as an object.
func (c *clone) newFile(size int64) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "zeros")
	require.NoError(c.t, os.WriteFile(path, nil, 0o600))
	require.NoError(c.t, os.Truncate(path, size))

	return c.must("-c", "core.compression=1", "hash-object", "-w", path)
}

// deltaBomb makes a pack of a file of zeros and of a difference that copies it many times.
func deltaBomb(t *testing.T, base, copies int) []byte {
	t.Helper()

	var pack bytes.Buffer
	pack.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x02")

	add := func(kind byte, size int, between, content []byte) {
		head := kind<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			pack.WriteByte(head | 0x80)
			head = byte(size & 0x7f)
		}

		pack.WriteByte(head)
		pack.Write(between)
		out := zlib.NewWriter(&pack)
		_, err := out.Write(content)
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
	zeros := make([]byte, base)

	const blob, difference = 3, 7
	add(blob, base, nil, zeros)
	id := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", base), zeros...))
	delta := binary.AppendUvarint(nil, uint64(base))

	delta = binary.AppendUvarint(delta, uint64(base)*uint64(copies))
	for range copies { // from the start, all of it
		delta = append(delta, 0xf0, byte(base), byte(base>>8), byte(base>>16))
	}

	add(difference, len(delta), id[:], delta)

	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])

	return pack.Bytes()
}
