package builtin

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"everloop/activities/tools"
)

// lineReader reads lines of any length in little memory. A line over most
// characters is cut, or wrapped into several that are counted each.
type lineReader struct {
	in     *bufio.Reader
	most   int
	wrap   bool
	number int // of the line that next gave last, from 1
}

func newLineReader(in io.Reader, most int, wrap bool) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), most: most, wrap: wrap}
}

// next gives a line without its end, as clean text; io.EOF after the last.
func (r *lineReader) next() (string, error) {
	if r.wrap {
		return r.nextWrapped()
	}

	var kept []byte

	total := 0

	for {
		part, err := r.in.ReadSlice('\n')

		total += len(part)
		if room := r.most*utf8.UTFMax + 2 - len(kept); room > 0 {
			kept = append(kept, part[:min(room, len(part))]...)
		}

		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && total == 0:
			return "", io.EOF
		case err != nil && err != io.EOF:
			return "", err
		}

		r.number++

		text := kept
		if total == len(kept) {
			text = trimEnd(kept)
		}

		line := tools.Clean(string(text))
		if tools.Length(line) <= r.most && total == len(kept) {
			return line, nil
		}

		return tools.First(line, r.most) + fmt.Sprintf(" [… cut: the line has %d bytes]", total), nil
	}
}

// nextWrapped returns the next piece of at most most characters.
func (r *lineReader) nextWrapped() (string, error) {
	var piece []byte

	for chars := 0; chars < r.most; chars++ {
		char, size, err := r.in.ReadRune()
		if err == io.EOF && len(piece) > 0 {
			break
		}

		if err != nil {
			return "", err
		}

		if char == '\n' {
			r.number++
			return tools.Clean(string(trimEnd(piece))), nil
		}

		if char == utf8.RuneError && size == 1 {
			char = '\uFFFD'
		}

		piece = utf8.AppendRune(piece, char)
	}
	// The end of a line that is just full belongs to it.
	if next, err := r.in.Peek(1); err == nil && next[0] == '\n' {
		_, _ = r.in.Discard(1)
	}

	r.number++

	return tools.Clean(string(piece)), nil
}

// trimEnd drops the end of a line in either convention.
func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
