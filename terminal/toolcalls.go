package terminal

import (
	"fmt"
	"strings"
)

// maxLines is the number of lines shown of a call's result.
const maxLines = 12

// shownCall is a running tool call.
type shownCall struct {
	tool    string
	summary string
	indent  string // of a sub-agent's call
}

// addCall shows the start of a call.
func (p *printer) addCall(turn *shownTurn, call *toolCall) {
	if call.Tool == "AskUserQuestion" || p.calls[call.ID] != nil {
		return // the prompt follows when the chat pauses
	}

	name := call.Display
	if name == "" {
		name = call.Tool
	}

	shown := &shownCall{tool: oneLine(name, 60), summary: summarize(call)}
	if parent := p.calls[turn.parent]; parent != nil {
		shown.indent = parent.indent + "  "
	}

	p.calls[call.ID] = shown
	p.startBlock(toolBlock)
	p.line(shown.indent + p.paint(cyan, "▸ ") + p.callText(shown, 0))

	for i, step := range planSteps(call) {
		p.line(fmt.Sprintf("  %d. %s", i+1, oneLine(step.Title, p.style.Width-6)))

		if detail := oneLine(step.Detail, p.style.Width-6); detail != "" {
			p.line("     " + p.paint(dim, detail))
		}
	}

	p.headed = call.ID
}

// callText returns a call as one line, with space for reserved characters.
func (p *printer) callText(call *shownCall, reserved int) string {
	width := max(p.style.Width-len(call.indent)-2-len([]rune(call.tool))-2-reserved, 20)
	if summary := oneLine(call.summary, width); summary != "" {
		return p.paint(bold, call.tool) + "  " + summary
	}
	return p.paint(bold, call.tool)
}

// finishCall shows the result of a command or a failed call. It repeats the call unless its
// start is the last line.
func (p *printer) finishCall(e *Event) {
	call := p.calls[e.ToolCallID]
	if call == nil {
		return
	}

	delete(p.calls, e.ToolCallID)

	mark, took := p.paint(green, "✓"), p.paint(dim, duration(e.DurationMS))

	switch e.Status {
	case "error":
		mark = p.paint(red, "✗")
	case "cancelled":
		mark, took = p.paint(yellow, "✗"), p.paint(yellow, "cancelled")
	}

	var result []string
	if text := strings.TrimRight(Clean(e.text()), "\n "); text != "" && (e.Status == "error" || call.tool == "Bash") {
		result = shorten(strings.Split(text, "\n"), e.Status == "error")
	}

	headed := p.headed == e.ToolCallID
	p.startBlock(toolBlock)

	if !headed {
		p.line(call.indent + mark + " " + p.callText(call, 12) + "  " + took)
	}

	for _, line := range result {
		line = strings.ReplaceAll(line, "\t", "    ")
		if runes, width := []rune(line), p.style.Width-len(call.indent)-4; width > 0 && len(runes) > width {
			line = string(runes[:width-1]) + "…"
		}

		p.line(strings.TrimRight(call.indent+p.paint(dim, "  │ "+line), " "))
	}

	if headed {
		p.line(call.indent + "  " + mark + " " + took)
	}
}

// shorten returns the first lines of a result, or the last lines of a failed one, because a
// command reports its failure last.
func shorten(lines []string, failed bool) []string {
	hidden := len(lines) - maxLines
	switch {
	case hidden <= 0:
		return lines
	case failed:
		return append([]string{fmt.Sprintf("… %d earlier lines", hidden)}, lines[hidden:]...)
	}
	return append(lines[:maxLines:maxLines], fmt.Sprintf("… %d more lines", hidden))
}
