package terminal

import (
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/term"
)

// lines asks a person for one line at a time. errEnd says that no more will come,
// errLeft that the user wants to leave.
type lines interface {
	line(ctx context.Context, prompt string) (string, error)
}

// Screen is a terminal on which lines can be edited.
type Screen struct {
	In  io.Reader
	Out io.Writer

	// Raw passes keys on as they are typed, until restore is called.
	Raw func() (restore func(), err error)
	// Size is the current width and height in characters.
	Size func() (width, height int, err error)
}

// editor reads lines that can be edited; the arrow keys bring back earlier ones. Several
// lines that are pasted at once stay together.
type editor struct {
	screen     Screen
	terminal   *term.Terminal
	interrupts <-chan struct{}
}

func newEditor(screen Screen, interrupts <-chan struct{}) *editor {
	keys := struct {
		io.Reader
		io.Writer
	}{screen.In, screen.Out}

	return &editor{screen: screen, terminal: term.NewTerminal(keys, ""), interrupts: interrupts}
}

// line implements lines. While it waits, Ctrl-C and Ctrl-D are keys that leave.
func (e *editor) line(ctx context.Context, prompt string) (string, error) {
	restore, err := e.screen.Raw()
	if err != nil {
		return "", err
	}
	defer restore()

	if width, height, err := e.screen.Size(); err == nil && width > 0 {
		_ = e.terminal.SetSize(width, height) // only fails with the screen
	}

	type read struct {
		text string
		err  error
	}

	typed := make(chan read, 1)

	go func() {
		text, err := e.read(prompt)
		typed <- read{text, err}
	}()

	select {
	case r := <-typed:
		return r.text, r.err
	case <-e.interrupts:
		return "", errLeft
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// read gives what was typed or pasted up to the next Enter.
func (e *editor) read(prompt string) (string, error) {
	e.terminal.SetPrompt(prompt)

	e.terminal.SetBracketedPasteMode(true)
	defer e.terminal.SetBracketedPasteMode(false)

	var text strings.Builder

	for {
		part, err := e.terminal.ReadLine()
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return "", errEnd
		}

		if text.Len()+len(part) > maxLine {
			return "", &Fault{Code: ExitTrouble, Message: "the text is too long"}
		}

		text.WriteString(part)

		if err == nil {
			return strings.TrimSpace(strings.ToValidUTF8(text.String(), "")), nil
		}

		text.WriteByte('\n')
		e.terminal.SetPrompt("… ")
	}
}
