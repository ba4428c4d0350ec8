package githost

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// entry is one file of a tree, or one directory in a non-recursive listing.
type entry struct {
	mode string // as git writes it: 100644, 100755, 120000, 160000, 040000
	id   string
	size int64 // bytes of a file
	path string
}

func (e entry) file() bool       { return e.mode == "100644" || e.mode == "100755" || e.mode == "100664" }
func (e entry) executable() bool { return e.mode == "100755" }

// Bounds of reading a tree.
const (
	maxTreeText = 8 << 20
	maxEntry    = 16 << 10
)

// errTooMany reports a tree with more files than the limit.
var errTooMany = errors.New("the tree has too many files")

// files lists all files of a tree, at most `most`: above it stops with errTooMany, however
// large the tree is.
func (g *git) files(ctx context.Context, at place, tree string, most int) ([]entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	reader, writer := io.Pipe()
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		_ = writer.CloseWithError(g.run(ctx, at, nil, writer, "ls-tree", "-r", "-z", "--long", "--full-tree", tree))
	}()

	list, err := readEntries(reader, most)

	cancel()

	_ = reader.Close()

	<-ended

	return list, err
}

func readEntries(r io.Reader, most int) (list []entry, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxTreeText))
	lines.Buffer(nil, maxEntry)
	lines.Split(atZero)

	for lines.Scan() {
		if len(list) == most {
			return nil, errTooMany
		}

		e, err := readEntry(lines.Text())
		if err != nil {
			return nil, err
		}

		list = append(list, e)
	}

	return list, lines.Err()
}

// atZero splits at zero bytes.
func atZero(data []byte, end bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}

	if end && len(data) > 0 {
		return 0, nil, errTooMany // truncated
	}

	return 0, nil, nil
}

// readEntry reads "mode type id size<TAB>path".
func readEntry(line string) (e entry, err error) {
	head, path, ok := strings.Cut(line, "\t")

	fields := strings.Fields(head)
	if !ok || len(fields) != 4 {
		return e, fmt.Errorf("git lists a tree in another form")
	}

	e = entry{mode: fields[0], id: fields[2], path: path}
	if fields[3] != "-" {
		e.size, err = strconv.ParseInt(fields[3], 10, 64)
	}

	return e, err
}

// contents reads files sequentially with one git process. take receives each file's content, of
// the size of its entry.
func (g *git) contents(ctx context.Context, at place, list []entry, take func(e entry, content io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var wanted strings.Builder
	for _, e := range list {
		wanted.WriteString(e.id + "\n")
	}

	reader, writer := io.Pipe()
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		_ = writer.CloseWithError(g.run(ctx, at, strings.NewReader(wanted.String()), writer, "cat-file", "--batch"))
	}()

	err := readContents(bufio.NewReader(reader), list, take)

	cancel()

	_ = reader.Close()

	<-ended

	return err
}

func readContents(in *bufio.Reader, list []entry, take func(e entry, content io.Reader) error) error {
	for _, e := range list {
		head, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read the files of a commit: %w", err)
		}

		if head != fmt.Sprintf("%s blob %d\n", e.id, e.size) {
			return fmt.Errorf("git gives an object in another form")
		}

		content := io.LimitReader(in, e.size)
		if err := take(e, content); err != nil {
			return err
		}

		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}

		if end, err := in.ReadByte(); err != nil || end != '\n' {
			return errors.Join(err, fmt.Errorf("git gives an object in another form"))
		}
	}

	return nil
}
