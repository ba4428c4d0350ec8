package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// archive writes a compressed tar file.
type archive struct {
	pack  *zstd.Encoder
	tar   *tar.Writer
	parts tallies
}

func newArchive(to io.Writer, head Head) (*archive, error) {
	pack, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return nil, err
	}

	a := &archive{pack: pack, tar: tar.NewWriter(pack)}

	return a, a.document(headName, head)
}

// document writes an entry outside of all parts.
func (a *archive) document(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}

	err = a.tar.WriteHeader(&tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now(), Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}

	_, err = a.tar.Write(text)

	return err
}

// add writes an entry. A body that is shorter than its header's size is padded with zeros: the
// file was truncated in the meantime.
func (a *archive) add(header *tar.Header, body io.Reader) error {
	header.Format = tar.FormatPAX
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("back up %s: %w", header.Name, err)
	}

	content := sha256.New()
	if header.Typeflag == tar.TypeReg {
		into := io.MultiWriter(a.tar, content)

		n, err := io.CopyN(into, body, header.Size)
		if errors.Is(err, io.EOF) {
			_, err = io.CopyN(into, zeros{}, header.Size-n)
		}

		if err != nil {
			return fmt.Errorf("back up %s: %w", header.Name, err)
		}
	}

	a.parts.of(partOf(header.Name)).count(header, content.Sum(nil))

	return nil
}

// bytes writes an entry from memory.
func (a *archive) bytes(name string, content []byte) error {
	return a.add(&tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now(),
	}, bytes.NewReader(content))
}

// finish writes the manifest and closes the archive.
func (a *archive) finish(m Manifest) error {
	if err := a.document(manifestName, m); err != nil {
		return err
	}

	return errors.Join(a.tar.Close(), a.pack.Close())
}

// zeros is an infinite reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// count adds an entry to the digest of the part.
func (t *tally) count(header *tar.Header, content []byte) {
	t.Entries++
	t.Bytes += header.Size

	fmt.Fprintf(t.sum, "%q %c %o %d %d %q %d %x", header.Name, header.Typeflag, header.Mode, header.Uid, header.Gid, header.Linkname,
		header.Size, content)

	for _, key := range slices.Sorted(maps.Keys(header.PAXRecords)) {
		if strings.HasPrefix(key, records) {
			fmt.Fprintf(t.sum, " %q=%q", key, header.PAXRecords[key])
		}
	}

	t.sum.Write([]byte{'\n'})
}

// ErrDamaged reports that a backup is incomplete or was changed.
var ErrDamaged = errors.New("the backup is damaged")

// maxDocument is the maximum size of the first and the last entry, in bytes.
const maxDocument = 1 << 30

// maxWindow is the maximum memory for reading a backup, in bytes.
const maxWindow = 128 << 20

// read calls each for every entry between the first and the last one, and returns the manifest
// after verifying the digests of all parts. The body of an entry must be read within each; an
// unread rest is included in the digest.
func read(from io.Reader, each func(header *tar.Header, body io.Reader) error) (m Manifest, err error) {
	unpack, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2))
	if err != nil {
		return m, err
	}
	defer unpack.Close()

	entries := tar.NewReader(unpack)

	head, err := readHead(entries)
	if err != nil {
		return m, err
	}

	if err := head.check(); err != nil {
		return m, err
	}

	var seen tallies

	for {
		header, err := entries.Next()
		if err != nil {
			return m, damaged("it ends before its manifest, or cannot be read", err)
		}

		if header.Name == manifestName {
			break
		}

		if err := checkName(header); err != nil {
			return m, err
		}

		content := sha256.New()
		body := &tee{from: entries, sum: content}

		if err := each(header, body); err != nil {
			return m, body.explain(err)
		}

		if _, err := io.Copy(io.Discard, body); err != nil {
			return m, damaged(header.Name+" cannot be read", err)
		}

		seen.of(partOf(header.Name)).count(header, content.Sum(nil))
	}

	if err := decode(entries, &m); err != nil {
		return m, damaged("its manifest cannot be read", err)
	}

	// Read to the end of the stream, which contains the checksum of the compression.
	if _, err := io.Copy(io.Discard, unpack); err != nil {
		return m, damaged("its end cannot be read", err)
	}

	return m, m.compare(seen.parts())
}

// tee adds the read data to a digest, and records the read error.
type tee struct {
	from io.Reader
	sum  io.Writer
	err  error
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	_, _ = t.sum.Write(p[:n]) // hash.Hash never returns an error

	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}

	return n, err
}

func (t *tee) explain(err error) error {
	if t.err != nil {
		return damaged("it cannot be read", t.err)
	}

	return err
}

func damaged(how string, err error) error { return fmt.Errorf("%w: %s: %w", ErrDamaged, how, err) }

func readHead(entries *tar.Reader) (head Head, err error) {
	header, err := entries.Next()
	if err != nil || header.Name != headName {
		return head, fmt.Errorf("the file is not a backup of Everloop, or its beginning is damaged: %w",
			errors.Join(err, errors.New(headName+" is not its first entry")))
	}

	if err := decode(entries, &head); err != nil {
		return head, damaged(headName+" cannot be read", err)
	}

	return head, nil
}

func decode(from io.Reader, into any) error {
	text, err := io.ReadAll(io.LimitReader(from, maxDocument))
	if err != nil {
		return err
	}

	return json.Unmarshal(text, into)
}

// checkName returns an error for a name that leaves the directory of its part.
func checkName(header *tar.Header) error {
	name := strings.TrimSuffix(header.Name, "/")
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") ||
		strings.ContainsRune(name, 0) {
		return fmt.Errorf("the backup has an entry outside of its target: %q", header.Name)
	}

	return nil
}

// compare verifies the parts that were read against the manifest.
func (m Manifest) compare(seen []Part) error {
	if slices.Equal(m.Parts, seen) {
		return nil
	}

	for _, want := range m.Parts {
		at := slices.IndexFunc(seen, func(p Part) bool { return p.Name == want.Name })
		if at < 0 || seen[at] != want {
			return fmt.Errorf("%w: the digest of %s is not that of the manifest", ErrDamaged, want.Name)
		}
	}

	return fmt.Errorf("%w: it has parts that its manifest does not name", ErrDamaged)
}
