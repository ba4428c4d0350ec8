package terminal

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Style says what the screen can do.
type Style struct {
	Color bool // colours may be used
	Live  bool // a line can be written over: a terminal, and no file
	Width int  // characters of a line; 0: 100
}

// printer shows the events of a chat. What the agent says and does goes to out;
// what this program has to say goes to notes. It is safe for concurrent use.
type printer struct {
	mu    sync.Mutex
	style Style
	out   *bufio.Writer
	notes io.Writer

	kind    blockKind
	midLine bool // something stands on the current line
	held    int  // line ends of a text that are only written when it goes on
	status  bool // the current line holds a status to be written over

	turns map[string]*shownTurn
	calls map[string]*shownCall
	order []string // ids of the calls that run, oldest first
	at    string   // the call whose output was written last
}

// blockKind is what stands on the screen last.
type blockKind int

const (
	nothing blockKind = iota
	textBlock
	thinkingBlock
	toolBlock
)

// shownTurn is an assistant's turn that is being shown.
type shownTurn struct {
	parent string // the fork that owns it; empty: the main agent
	clean  map[string]*cleaner
}

func newPrinter(out, notes io.Writer, style Style) *printer {
	if style.Width <= 0 {
		style.Width = 100
	}

	return &printer{
		style: style, out: bufio.NewWriter(out), notes: notes,
		turns: map[string]*shownTurn{}, calls: map[string]*shownCall{},
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
	if !p.style.Color || text == "" {
		return text
	}

	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// event shows one event of the chat.
func (p *printer) event(e *Event) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.clearStatus()

	switch e.Name {
	case eventChatStart:
		if e.Resumed {
			p.note(dim, "the service was restarted; the chat goes on")
		}
	case eventTurnStart:
		p.startTurn(e)
	case eventTurnPatch:
		p.patch(e)
	case eventTurnEnd:
		p.endTurn(e)
	case eventCompacted:
		p.note(dim, "the history was compacted")
	case eventUpdated:
		if why := patience[e.WaitingReason]; why != "" {
			p.note(dim, why)
		}
	case eventChatEnd:
		p.endChat(e)
	}

	p.showStatus()
	_ = p.out.Flush() // a screen that is gone ends the program by its signal
}

// patience explains the waiting reasons that a user cannot see otherwise.
var patience = map[string]string{
	"rate_limit":     "waiting: the model server limits the rate",
	"slot":           "waiting for a free place",
	"worker_missing": "waiting: no worker is running",
	"budget":         "waiting: the budget is used up",
}

func (p *printer) startTurn(e *Event) {
	turn := &shownTurn{clean: map[string]*cleaner{}}
	if e.ParentCall != nil {
		turn.parent = *e.ParentCall
	}

	p.turns[e.TurnID] = turn
}

func (p *printer) patch(e *Event) {
	turn := p.turns[e.TurnID]
	if turn == nil { // joined in the middle
		turn = &shownTurn{clean: map[string]*cleaner{}}
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
	case "tool_progress":
		p.progress(e)
	case "tool_result":
		p.finishCall(e)
	case "retry":
		p.note(dim, "the model is asked again: "+oneLine(e.Reason, 200))
	}
}

// say writes what the agent says or thinks.
func (p *printer) say(turn *shownTurn, e *Event) {
	kind := textBlock
	if e.BlockType == "thinking" {
		kind = thinkingBlock
	}

	c := turn.clean[e.BlockType]
	if c == nil {
		c = &cleaner{}
		turn.clean[e.BlockType] = c
	}

	text := c.clean(e.TextDelta)
	if p.kind != kind {
		if text = strings.TrimLeft(text, "\n"); text == "" {
			return
		}

		p.begin(kind)

		if kind == thinkingBlock && !p.style.Color {
			text = "thinking: " + text
		}
	}

	body := strings.TrimRight(text, "\n")
	if body == "" {
		p.held += len(text)
		return
	}

	before := strings.Repeat("\n", p.held)
	p.held = len(text) - len(body)

	p.midLine = true
	if kind == thinkingBlock {
		body = p.paint(dim, body)
	}

	p.write(before + body)
}

// begin makes room for something of another kind: talk stands apart by a line.
func (p *printer) begin(kind blockKind) {
	p.breakLine()

	if p.kind != nothing && p.kind != kind {
		p.write("\n")
	}

	p.kind = kind
}

func (p *printer) write(text string) { _, _ = p.out.WriteString(text) }

// breakLine ends the current line, if there is something on it.
func (p *printer) breakLine() {
	p.held = 0
	if p.midLine {
		p.write("\n")
		p.midLine = false
	}
}

// note writes a line of this program's own. On a terminal it needs a line of the
// screen; in a file or a pipe, what the agent says stays as it was said.
func (p *printer) note(color, text string) {
	if p.style.Live {
		p.breakLine()
	}

	_ = p.out.Flush()
	fmt.Fprintln(p.notes, p.paint(color, text))
}

// notify is note for callers outside of event.
func (p *printer) notify(color, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.clearStatus()
	p.note(color, text)
	p.showStatus()
	_ = p.out.Flush()
}

// ask writes a text that input follows.
func (p *printer) ask(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.clearStatus()
	p.breakLine()
	p.write(text)
	p.kind, p.midLine = nothing, false
	_ = p.out.Flush()
}

func (p *printer) endTurn(e *Event) {
	turn := p.turns[e.TurnID]
	delete(p.turns, e.TurnID)

	if turn != nil && turn.parent != "" {
		return
	}

	switch e.Status {
	case "failed":
		reason := oneLine(e.FailureReason, 300)
		if reason == "" {
			reason = "no reason was given"
		}

		p.breakLine()
		p.note(yellow, "the model's answer broke off: "+reason)
		p.kind = nothing
	case "interrupted":
		p.breakLine()
	}
}

// endChat shows how the chat ended, and forgets it.
func (p *printer) endChat(e *Event) {
	p.order, p.at = nil, ""
	clear(p.calls)
	clear(p.turns)
	p.breakLine()

	if e.FinishReason == "awaiting_answer" {
		return
	}

	facts := fmt.Sprintf(
		"%s · %s · %d tokens in, %d out · %s", e.Status, steps(e.Steps), e.Usage.Input, e.Usage.Output, duration(e.DurationMS),
	)

	if p.kind != nothing {
		_ = p.out.Flush()
		fmt.Fprintln(p.notes)
	}

	p.kind = nothing
	if e.Status == "failed" {
		p.note(red, "✗ "+failureText(e))
	}

	p.note(dim, facts)
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}

	return fmt.Sprintf("%d steps", n)
}

func failureText(e *Event) string {
	text := "the chat failed"
	if e.FinishReason != "failed" && e.FinishReason != "" {
		text += " (" + oneLine(e.FinishReason, 60) + ")"
	}

	if why := e.failure(); why != "" {
		text += ": " + oneLine(why, 1000)
	}

	return text
}
