package model

import (
	"strings"
	"unicode"
)

// prose joins the deltas of an answer's text or thinking. By the API a delta continues the text.
// Some servers send the cumulative text in each delta, or repeat the whole text at the end: a
// delta that starts with the entire previous text is buffered until the following deltas show its
// meaning.
type prose struct {
	emit func(text string) error

	raw    strings.Builder // the server's text without repetitions
	pieces int             // number of deltas in raw
	held   []string        // each starts with the previous one, the first with raw
	grown  int             // number of deltas longer than the previous one
	sofar  bool            // the deltas are cumulative
	join   joiner
}

// Limits of the buffer, and minimum lengths for a repetition to be conclusive.
const (
	maxHeld      = 8
	maxHeldBytes = 64 << 10
	sureBytes    = 32 // in the middle of a text
	likelyBytes  = 8  // at its end
)

// add adds a delta.
func (p *prose) add(piece string) error {
	if piece == "" {
		return nil
	}

	last := p.last()

	switch {
	case p.sofar:
		if strings.HasPrefix(last, piece) {
			return nil
		}

		rest, _ := strings.CutPrefix(piece, last)

		return p.take(rest)
	case last == "" || !strings.HasPrefix(piece, last):
		if err := p.release(); err != nil {
			return err
		}

		return p.take(piece)
	}

	p.held = append(p.held, piece)
	if len(piece) > len(last) {
		p.grown++
	}

	if p.proves(last) {
		p.sofar = true
		return p.settle(piece)
	}

	if len(p.held) == maxHeld || len(piece) > maxHeldBytes {
		return p.release()
	}

	return nil
}

// proves reports whether the buffered deltas are cumulative, independent of later deltas. Texts
// without letters, such as numbers and horizontal rules, do repeat their start.
func (p *prose) proves(before string) bool {
	return hasLetter(before) && (p.grown >= 2 || p.raw.Len() >= sureBytes && p.grown > 0)
}

// last returns the cumulative text, if the server sends it.
func (p *prose) last() string {
	if n := len(p.held); n > 0 {
		return p.held[n-1]
	}

	return p.raw.String()
}

// release treats the buffered deltas as continuations.
func (p *prose) release() error {
	held := p.held
	p.held, p.grown = nil, 0

	for _, piece := range held {
		if err := p.take(piece); err != nil {
			return err
		}
	}

	return nil
}

// settle replaces the text by a cumulative delta.
func (p *prose) settle(text string) error {
	p.held, p.grown = nil, 0
	return p.take(text[p.raw.Len():])
}

// whole adds the whole text, which some servers send after the deltas.
func (p *prose) whole(text string) error {
	if p.pieces == 0 {
		return p.add(text)
	}

	if pieces := p.raw.String() + strings.Join(p.held, ""); strings.HasPrefix(text, pieces) || !strings.HasPrefix(text, p.last()) {
		if err := p.release(); err != nil {
			return err
		}
	}

	p.held, p.grown = nil, 0

	if rest, is := strings.CutPrefix(text, p.raw.String()); is && rest != "" {
		return p.take(rest)
	}

	return nil
}

// end decides the meaning of the buffered deltas, and completes the text.
func (p *prose) end() error {
	repeated := p.grown >= 2 || hasLetter(p.raw.String()) &&
		(p.raw.Len() >= likelyBytes || p.pieces >= 2 || p.grown > 0 && p.raw.Len() > 2)

	var err error
	if len(p.held) > 0 && repeated {
		err = p.settle(p.last())
	} else {
		err = p.release()
	}

	if err != nil {
		return err
	}

	return p.write(p.join.flush())
}

// take appends to the text.
func (p *prose) take(piece string) error {
	p.raw.WriteString(piece)
	p.pieces++

	return p.write(p.join.add(piece))
}

func (p *prose) write(text string) error {
	if text == "" {
		return nil
	}

	return p.emit(text)
}

func hasLetter(text string) bool { return strings.IndexFunc(text, unicode.IsLetter) >= 0 }
