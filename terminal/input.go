package terminal

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// maxLine bounds one line of input; the service accepts 10 MB a request.
const maxLine = 8 << 20

// input reads lines from a user on request.
type input struct {
	lines      chan string
	show       func(prompt string)
	interrupts <-chan struct{}
}

// newInput returns a new input. Its goroutine ends with the reader.
func newInput(from io.Reader, show func(prompt string), interrupts <-chan struct{}) *input {
	in := &input{lines: make(chan string), show: show, interrupts: interrupts}
	go func() {
		defer close(in.lines)
		scanner := bufio.NewScanner(from)
		scanner.Buffer(make([]byte, 64<<10), maxLine)
		for scanner.Scan() {
			in.lines <- strings.TrimSpace(strings.ToValidUTF8(scanner.Text(), ""))
		}
	}()
	return in
}

var errEnd = errors.New("end of input")

// line shows a prompt and returns the next line. It returns errEnd at the end of the input
// and errLeft after an interrupt.
func (in *input) line(ctx context.Context, prompt string) (string, error) {
	in.show(prompt)

	select {
	case text, ok := <-in.lines:
		if !ok {
			return "", errEnd
		}

		return text, nil
	case <-in.interrupts:
		return "", errLeft
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
