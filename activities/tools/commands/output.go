package commands

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"everloop/activities/tools"
)

// How much of one command's output is kept on disk, and how much it may write
// before it is taken for a runaway and killed; bytes.
const (
	maxSavedOutput = 64 << 20
	maxOutput      = 512 << 20
)

// output takes what a command writes. It keeps little in memory: the whole text
// while it fits a result, and afterwards its head and tail, the whole then going
// to a file that save opens. It is safe for use by several goroutines.
type output struct {
	save    func() (io.WriteCloser, error)
	live    *progress
	runaway func() // called once when maxOutput is passed
	most    int    // characters of a result

	mu        sync.Mutex
	partial   []byte // the first bytes of a character that is not whole yet
	head      []byte // everything, until it is more than most characters
	tail      []byte // the end, once head is full
	chars     int
	bytes     int64
	file      io.WriteCloser
	fileBytes int64
	fileErr   error
}

// Write never fails: a command must not notice what becomes of its output.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.bytes <= maxOutput && o.bytes+int64(len(p)) > maxOutput && o.runaway != nil {
		o.runaway()
	}

	o.bytes += int64(len(p))

	data := p
	if len(o.partial) > 0 {
		data = append(o.partial, p...)
		o.partial = nil
	}

	whole := wholeRunes(data)
	if whole < len(data) {
		o.partial = bytes.Clone(data[whole:])
	}

	o.take(cleanBytes(data[:whole]))

	return len(p), nil
}

// take adds clean text.
func (o *output) take(text []byte) {
	if len(text) == 0 {
		return
	}

	o.live.add(text)

	o.chars += utf8.RuneCount(text)
	if o.file == nil && o.fileErr == nil {
		o.head = append(o.head, text...)
		if o.chars > o.most {
			o.spill()
		}

		return
	}

	o.store(text)
	o.tail = append(o.tail, text...)
	// Four bytes a character at most, and room so that trimming is rare.
	keep := o.most * utf8.UTFMax
	if len(o.tail) > 4*keep {
		o.tail = append(o.tail[:0:0], trimStart(o.tail[len(o.tail)-keep:])...)
	}
}

// spill starts the file and splits what memory holds in head and tail.
func (o *output) spill() {
	o.file, o.fileErr = o.save()
	o.store(o.head)
	o.tail = bytes.Clone(o.head)
}

func (o *output) store(text []byte) {
	if o.fileErr != nil || o.fileBytes >= maxSavedOutput {
		return
	}

	if room := maxSavedOutput - o.fileBytes; int64(len(text)) > room {
		text = text[:wholeRunes(text[:room])]
		o.fileBytes = maxSavedOutput
	} else {
		o.fileBytes += int64(len(text))
	}

	if _, err := o.file.Write(text); err != nil {
		o.fileErr = err
		_ = o.file.Close()
	}
}

// finish closes the output and gives the text for the model: what was written
// and then the trailer, in at most o.most characters. path is where save
// keeps the whole.
func (o *output) finish(path, trailer string) string {
	o.mu.Lock()
	defer o.mu.Unlock()

	if len(o.partial) > 0 {
		o.take([]byte("\uFFFD"))
		o.partial = nil
	}

	o.live.close()

	if o.file == nil && o.fileErr == nil {
		if trailer != "" && len(o.head) > 0 {
			trailer = separated(o.head) + trailer
		}

		if o.chars+tools.Length(trailer) <= o.most {
			return string(o.head) + trailer
		}

		o.spill()
	}

	if o.fileErr == nil {
		o.fileErr = o.file.Close()
	}

	note := tools.ShortenedNote(o.chars, path)
	switch {
	case o.fileErr != nil:
		note = fmt.Sprintf("\n\n[… %d characters in all; the middle is left out here and could not be kept …]\n\n", o.chars)
	case o.fileBytes >= maxSavedOutput:
		note = fmt.Sprintf("\n\n[… %d characters in all; the middle is left out here. The first %d MiB: %s, which Read can page with "+
			"offset and limit …]\n\n",
			o.chars, maxSavedOutput>>20, path)
	}

	if trailer != "" && !strings.HasPrefix(trailer, "\n") {
		trailer = separated(o.tail) + trailer
	}

	return tools.HeadAndTail(string(o.head), string(o.tail), note, o.most-tools.Length(trailer)) + trailer
}

// separated gives what goes between an output and a remark on it.
func separated(output []byte) string {
	if bytes.HasSuffix(output, []byte("\n")) {
		return "\n"
	}

	return "\n\n"
}

// wholeRunes returns how much of data ends at the end of a character: bytes at
// the end that may yet become one are left out.
func wholeRunes(data []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		at := len(data) - i
		if utf8.RuneStart(data[at]) {
			if utf8.FullRune(data[at:]) {
				return len(data)
			}

			return at
		}
	}

	return len(data)
}

// trimStart drops the rest of a character that was cut in two.
func trimStart(data []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(data); i++ {
		if utf8.RuneStart(data[i]) {
			return data[i:]
		}
	}

	return data
}

func cleanBytes(data []byte) []byte {
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return data
	}

	return []byte(tools.Clean(string(data)))
}
