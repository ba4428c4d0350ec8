package terminal

import (
	"fmt"
	"slices"
	"strings"
)

const (
	liveLines  = 12 // of a call's output, as it comes
	faultLines = 6  // of a result that nothing was shown of before
)

// shownCall is a tool call that runs.
type shownCall struct {
	tool    string
	summary string
	indent  string
	parent  *shownCall // the fork that this call belongs to
	headed  bool       // its line stands above what belongs to it
	clean   cleaner
	partial string // output without its line end yet
	lines   int    // of output, shown or not
	last    string // the last line of output
}

func (p *printer) addCall(turn *shownTurn, call *toolCall) {
	if call.Tool == "AskUserQuestion" {
		return // it is asked when the chat pauses
	}

	if p.calls[call.ID] != nil {
		return
	}

	name := call.Display
	if name == "" {
		name = call.Tool
	}

	shown := &shownCall{tool: oneLine(name, 60), summary: summarize(call)}
	if parent := p.calls[turn.parent]; parent != nil {
		shown.parent, shown.indent = parent, parent.indent+"  "
	}

	p.calls[call.ID] = shown

	p.order = append(p.order, call.ID)
	for i, step := range planSteps(call) {
		if i == 0 {
			p.begin(toolBlock)
			p.line(p.paint(bold, "Plan: "+oneLine(shown.summary, p.style.Width-8)))
		}

		p.line(fmt.Sprintf("  %d. %s", i+1, oneLine(step.Title, p.style.Width-6)))

		if detail := oneLine(step.Detail, p.style.Width-6); detail != "" {
			p.line("     " + p.paint(dim, detail))
		}
	}
}

// head is the line that stands for a call; room is what else goes on the line.
func (p *printer) head(call *shownCall, room int) string {
	width := max(p.style.Width-len(call.indent)-2-len([]rune(call.tool))-2-room, 20)
	if summary := oneLine(call.summary, width); summary != "" {
		return p.paint(bold, call.tool) + "  " + summary
	}

	return p.paint(bold, call.tool)
}

func (p *printer) line(text string) { p.write(text + "\n") }

// progress writes the output of a running call, indented; beyond the bound it is
// only counted.
func (p *printer) progress(e *Event) {
	call := p.calls[e.ToolCallID]
	if call == nil {
		return
	}

	text := call.partial + call.clean.clean(e.TextDelta)
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			call.partial = line
			break
		}

		p.output(e.ToolCallID, call, line)

		text = rest
	}

	if len(call.partial) > 4096 { // a line without an end
		p.output(e.ToolCallID, call, call.partial)
		call.partial = ""
	}
}

func (p *printer) output(id string, call *shownCall, line string) {
	call.lines++

	call.last = line
	if call.lines > liveLines {
		return
	}

	if p.at != id || p.kind != toolBlock {
		p.headUp(call)
		p.at = id
	}

	p.quote(call, line)
}

// headUp writes the line of a call above what belongs to it, and that of the fork
// it belongs to itself.
func (p *printer) headUp(call *shownCall) {
	p.headParent(call)
	p.begin(toolBlock)
	p.line(call.indent + p.paint(cyan, "▸ ") + p.head(call, 0))
	call.headed = true
}

func (p *printer) headParent(call *shownCall) {
	if call.parent != nil && !call.parent.headed {
		p.headUp(call.parent)
	}
}

// quote writes a line that a tool said.
func (p *printer) quote(call *shownCall, line string) {
	line = strings.ReplaceAll(line, "\t", "    ")
	if runes, width := []rune(line), p.style.Width-len(call.indent)-4; width > 0 && len(runes) > width {
		line = string(runes[:width-1]) + "…"
	}

	p.line(strings.TrimRight(call.indent+p.paint(dim, "  │ "+line), " "))
}

func (p *printer) finishCall(e *Event) {
	call := p.calls[e.ToolCallID]
	if call == nil {
		return
	}

	delete(p.calls, e.ToolCallID)

	p.order = slices.DeleteFunc(p.order, func(id string) bool { return id == e.ToolCallID })
	if call.partial != "" {
		p.output(e.ToolCallID, call, call.partial)
	}

	result := strings.TrimRight(Clean(e.text()), "\n ")
	mark := p.paint(green, "✓")

	took := p.paint(dim, duration(e.DurationMS))
	switch e.Status {
	case "error":
		mark = p.paint(red, "✗")
	case "cancelled":
		mark, took = p.paint(yellow, "✗"), p.paint(yellow, "cancelled")
	}

	hidden := call.lines - liveLines

	p.begin(toolBlock)

	if p.at == e.ToolCallID { // its own output stands right above
		if hidden > 0 {
			p.quote(call, more(hidden))
		}

		p.failedEnd(call, e.Status, result)
		p.line(call.indent + "  " + mark + " " + took)
		p.at = ""

		return
	}

	p.at = ""
	p.headParent(call)
	p.line(call.indent + mark + " " + p.head(call, 12) + "  " + took)

	switch {
	case call.lines > 0:
		if hidden > 0 {
			p.quote(call, more(hidden))
		}

		p.failedEnd(call, e.Status, result)
	case result != "" && (e.Status == "error" || call.tool == "Bash"):
		p.quoteSome(call, result)
	}
}

// failedEnd shows how a failed command ended, which its output does not say.
func (p *printer) failedEnd(call *shownCall, status, result string) {
	if status != "error" {
		return
	}

	if at := strings.LastIndexByte(result, '\n'); at >= 0 {
		result = result[at+1:]
	}

	if result != "" && result != call.last {
		p.quote(call, result)
	}
}

func (p *printer) quoteSome(call *shownCall, result string) {
	lines := strings.Split(result, "\n")
	for _, line := range lines[:min(len(lines), faultLines)] {
		p.quote(call, line)
	}

	if hidden := len(lines) - faultLines; hidden > 0 {
		p.quote(call, more(hidden))
	}
}

func more(lines int) string {
	if lines == 1 {
		return "… 1 more line"
	}

	return fmt.Sprintf("… %d more lines", lines)
}

// showStatus says, on a line that is written over, what is running.
func (p *printer) showStatus() {
	if !p.style.Live || len(p.order) == 0 || p.held > 0 {
		return
	}

	if p.midLine {
		p.breakLine()
	}

	text := fmt.Sprintf("%d tools are running", len(p.order))
	if len(p.order) == 1 {
		call := p.calls[p.order[0]]
		text = call.tool + "  " + oneLine(call.summary, max(p.style.Width-len([]rune(call.tool))-8, 10))
	}

	p.write(p.paint(dim, "… "+text))
	p.status = true
}

func (p *printer) clearStatus() {
	if p.status {
		p.write("\r\x1b[K")
		p.status = false
	}
}
