package terminal

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Style describes the screen.
type Style struct {
	Color bool
	Live  bool // out is a terminal, which notes share
	Width int  // characters of a line; 0: 100
}

// printer shows the events of a chat. It writes the agent's output to out and its own
// messages to notes. It is safe for concurrent use.
type printer struct {
	mu    sync.Mutex
	style Style
	out   *bufio.Writer
	notes io.Writer

	kind    blockKind
	midLine bool // the current line has text
	breaks  int  // line breaks of a text, written when the text continues

	turns  map[string]*shownTurn
	calls  map[string]*shownCall
	headed string // the call of the last line
}

// blockKind is the kind of the last output.
type blockKind int

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	toolBlock
)

// shownTurn is an assistant's turn in progress.
type shownTurn struct {
	parent  string // the sub-agent's call that owns it; empty: the main agent
	cleaner map[string]*cleaner
}

func newPrinter(out, notes io.Writer, style Style) *printer {
	if style.Width <= 0 {
		style.Width = 100
	}
	return &printer{
		style: style, out: bufio.NewWriter(out), notes: notes, turns: map[string]*shownTurn{}, calls: map[string]*shownCall{},
	}
}

const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p *printer) paint(code, text string) string {
	if !p.style.Color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// event shows an event of the chat.
func (p *printer) event(e *Event) {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch e.Name {
	case eventChatStart:
		if e.Resumed {
			p.note(dim, "the service was restarted; the chat continues")
		}
	case eventTurnStart:
		p.turns[e.TurnID] = &shownTurn{parent: e.ParentCall, cleaner: map[string]*cleaner{}}
	case eventTurnPatch:
		p.patch(e)
	case eventTurnEnd:
		p.endTurn(e)
	case eventCompacted:
		p.note(dim, "the history was compacted")
	case eventUpdated:
		if text := waitingTexts[e.WaitingReason]; text != "" {
			p.note(dim, text)
		}
	case eventChatEnd:
		p.endChat(e)
	}

	_ = p.out.Flush() // a closed terminal ends the program by its signal
}

// waitingTexts describe the waiting reasons that the user cannot see otherwise.
var waitingTexts = map[string]string{
	"rate_limit":     "waiting: the model server limits the rate",
	"slot":           "waiting for a free slot",
	"worker_missing": "waiting: no worker is running",
	"budget":         "waiting: the budget is exhausted",
}

func (p *printer) patch(e *Event) {
	turn := p.turns[e.TurnID]
	if turn == nil { // its start was before the first event
		turn = &shownTurn{cleaner: map[string]*cleaner{}}
		p.turns[e.TurnID] = turn
	}

	switch e.PatchType {
	case "add_content":
		if turn.parent == "" { // a sub-agent answers its caller, not the user
			p.say(turn, e)
		}
	case "add_tool_call":
		if e.ToolCall != nil {
			p.addCall(turn, e.ToolCall)
		}
	case "tool_result":
		p.finishCall(e)
	case "retry":
		p.note(dim, "retrying the model call: "+oneLine(e.Reason, 200))
	}
}

// say writes the agent's text or thinking.
func (p *printer) say(turn *shownTurn, e *Event) {
	kind := textBlock
	if e.BlockType == "thinking" {
		kind = thinkingBlock
	}

	c := turn.cleaner[e.BlockType]
	if c == nil {
		c = &cleaner{}
		turn.cleaner[e.BlockType] = c
	}

	text := c.clean(e.TextDelta)

	if p.kind != kind {
		if text = strings.TrimLeft(text, "\n"); text == "" {
			return
		}

		p.startBlock(kind)

		if kind == thinkingBlock && !p.style.Color {
			text = "thinking: " + text
		}
	}

	body := strings.TrimRight(text, "\n")
	if body == "" {
		p.breaks += len(text)
		return
	}

	p.write(strings.Repeat("\n", p.breaks))

	if kind == thinkingBlock {
		p.write(p.paint(dim, body))
	} else {
		p.write(body)
	}

	p.breaks, p.midLine = len(text)-len(body), true
}

// startBlock separates blocks of different kinds by an empty line.
func (p *printer) startBlock(kind blockKind) {
	p.breakLine()
	if p.kind != noBlock && p.kind != kind {
		p.write("\n")
	}
	p.kind, p.headed = kind, ""
}

func (p *printer) write(text string) { _, _ = p.out.WriteString(text) }

func (p *printer) line(text string) { p.write(text + "\n") }

// breakLine ends the current line if it has text.
func (p *printer) breakLine() {
	p.breaks = 0
	if p.midLine {
		p.write("\n")
		p.midLine = false
	}
}

// note writes a message of this program. On a terminal it starts a new line; in a file or a
// pipe the agent's output stays unchanged.
func (p *printer) note(color, text string) {
	if p.style.Live {
		p.breakLine()
	}
	p.headed = ""
	_ = p.out.Flush()
	fmt.Fprintln(p.notes, p.paint(color, text))
}

// notify is note for callers that do not hold the mutex.
func (p *printer) notify(color, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(color, text)
	_ = p.out.Flush()
}

// ask writes a text that input follows.
func (p *printer) ask(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breakLine()
	p.write(text)
	p.kind = noBlock
	_ = p.out.Flush()
}

func (p *printer) endTurn(e *Event) {
	turn := p.turns[e.TurnID]
	delete(p.turns, e.TurnID)

	if turn != nil && turn.parent != "" || e.Status != "failed" && e.Status != "interrupted" {
		return
	}

	p.breakLine()

	if e.Status == "failed" {
		reason := oneLine(e.FailureReason, 300)
		if reason == "" {
			reason = "unknown reason"
		}

		p.note(yellow, "the model's answer failed: "+reason)
		p.kind = noBlock
	}
}

// endChat shows the end of the chat and resets the state.
func (p *printer) endChat(e *Event) {
	clear(p.calls)
	clear(p.turns)
	p.breakLine()

	if e.FinishReason == "awaiting_answer" {
		return
	}

	if p.kind != noBlock {
		_ = p.out.Flush()
		fmt.Fprintln(p.notes)
	}

	p.kind = noBlock

	if e.Status == "failed" {
		p.note(red, "✗ "+failureText(e))
	}

	steps := "1 step"
	if e.Steps != 1 {
		steps = fmt.Sprintf("%d steps", e.Steps)
	}

	p.note(dim, fmt.Sprintf(
		"%s · %s · %d tokens in, %d out · %s", e.Status, steps, e.Usage.Input, e.Usage.Output, duration(e.DurationMS),
	))
}

func failureText(e *Event) string {
	text := "the chat failed"
	if e.FinishReason != "failed" && e.FinishReason != "" {
		text += " (" + oneLine(e.FinishReason, 60) + ")"
	}
	if reason := e.failure(); reason != "" {
		text += ": " + oneLine(reason, 1000)
	}
	return text
}
