package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errLineTooLong = errors.New("a line of the stream is longer than allowed")

// lines reads a stream line by line without an allocation for lines that fit
// its buffer.
type lines struct {
	r    *bufio.Reader
	long []byte
}

func newLines(r io.Reader) *lines {
	return &lines{r: bufio.NewReaderSize(r, 16<<10)}
}

// next returns the next line without its terminator. The bytes are valid until the next call. A
// last line without a terminator is returned before io.EOF.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if line, err = l.r.ReadSlice('\n'); len(l.long)+len(line) > maxLineBytes {
				return nil, errLineTooLong
			}

			l.long = append(l.long, line...)
		}

		line = l.long
	}

	if err != nil && len(line) == 0 {
		return nil, err
	}

	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	return bytes.TrimRight(line, "\r\n"), nil
}

// field splits a line of an event stream into its field and value. A comment
// has an empty field.
func field(line []byte) (name string, value []byte) {
	before, after, found := bytes.Cut(line, []byte{':'})
	if !found {
		return string(line), nil
	}

	switch {
	case len(before) == 4 && string(before) == "data":
		name = "data"
	case len(before) == 5 && string(before) == "event":
		name = "event"
	default:
		name = string(before)
	}

	return name, bytes.TrimSpace(after)
}
