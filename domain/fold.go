package domain

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// FoldTurn applies one event of the log to the turn it names: the stored turn plus its later
// events equals the turn as it was streamed. Events of other turns and events that change no
// turn are ignored. Text that the turn already contains, by its offset, is not added twice; a
// gap between an event's text and the turn is an error and leaves the turn unchanged. For many
// events use [TurnFold].
func FoldTurn(turn *Turn, e LoggedEvent) error {
	fold := NewTurnFold(*turn)
	err := fold.Apply(e)
	*turn = fold.Turn()

	return err
}

// TurnFold is FoldTurn for a run of events: its cost grows with the text and
// not with text times events.
type TurnFold struct {
	turn    Turn
	growing map[int]*growingText // by index of the block
}

// growingText is the text of a block that deltas are being added to.
type growingText struct {
	text  []byte
	units int // length in UTF-16 code units
}

// NewTurnFold returns a new TurnFold that starts with a turn. A turn with only a TurnID is
// completed by its turn:start.
func NewTurnFold(turn Turn) *TurnFold {
	turn.Blocks = append([]Block{}, turn.Blocks...)
	turn.ToolCalls = append([]ToolCall{}, turn.ToolCalls...)

	return &TurnFold{turn: turn, growing: map[int]*growingText{}}
}

// Turn returns the turn with all applied events.
func (f *TurnFold) Turn() Turn {
	turn := f.turn
	turn.Blocks = append([]Block{}, f.turn.Blocks...)

	turn.ToolCalls = append([]ToolCall{}, f.turn.ToolCalls...)
	for i, g := range f.growing {
		turn.Blocks[i].Content = string(g.text)
	}

	return turn
}

// turnEvent is the union of the payloads of turn:start, turn:patch and turn:end
// (docs/events.md#server-events).
type turnEvent struct {
	TurnID TurnID `json:"turn_id"`

	Sequence             int64      `json:"sequence"`
	Role                 Role       `json:"role"`
	Status               string     `json:"status"` // of the turn, or in a tool_result of the call
	LoopID               string     `json:"loop_id"`
	Kind                 string     `json:"kind"`
	Model                string     `json:"model"`
	StartedAt            *time.Time `json:"started_at"`
	ParentForkToolCallID *string    `json:"parent_fork_tool_call_id"`
	Blocks               []Block    `json:"blocks"`

	PatchType  string    `json:"patch_type"`
	TextDelta  string    `json:"text_delta"`
	BlockType  BlockType `json:"block_type"`
	Offset     int       `json:"offset"`
	ToolCall   *ToolCall `json:"tool_call"`
	ToolCallID string    `json:"tool_call_id"`
	Result     string    `json:"result"`
	DurationMS int64     `json:"duration_ms"`

	Connections []Connection `json:"connections"`
	Images      []CallImage  `json:"images"`

	Usage         *Usage  `json:"usage"`
	FailureReason *string `json:"failure_reason"`
}

// Apply applies one event.
func (f *TurnFold) Apply(e LoggedEvent) error {
	switch e.Name {
	case EventTurnStart, EventTurnPatch, EventTurnEnd:
	default:
		return nil
	}

	var p turnEvent
	if err := json.Unmarshal(e.Data, &p); err != nil {
		return fmt.Errorf("event %d, %s: %w", e.Seq, e.Name, err)
	}

	if p.TurnID != f.turn.TurnID {
		return nil
	}

	switch e.Name {
	case EventTurnStart:
		f.start(e, p)
	case EventTurnEnd:
		f.end(p)
	default:
		if err := f.patch(p); err != nil {
			return fmt.Errorf("event %d of turn %s: %w", e.Seq, p.TurnID, err)
		}
	}

	return nil
}

// start sets the fields of turn:start that are not set yet.
func (f *TurnFold) start(e LoggedEvent, p turnEvent) {
	t := &f.turn
	if t.Status != "" {
		return
	}

	if t.ID == "" {
		t.ID = t.TurnID
	}

	t.ChatID, t.Sequence, t.Role = e.ChatID, p.Sequence, p.Role
	t.Status, t.LoopID, t.Kind, t.Model = TurnStatus(p.Status), p.LoopID, p.Kind, p.Model
	t.ParentForkToolCallID = p.ParentForkToolCallID

	t.StartedAt = e.At
	if p.StartedAt != nil {
		t.StartedAt = *p.StartedAt
	}

	t.Blocks = append(t.Blocks, p.Blocks...)
}

func (f *TurnFold) end(p turnEvent) {
	f.turn.Status = TurnStatus(p.Status)

	f.turn.DurationMS = p.DurationMS
	if p.Usage != nil {
		f.turn.Usage = *p.Usage
	}

	f.turn.FailureReason = p.FailureReason
}

func (f *TurnFold) patch(p turnEvent) error {
	switch p.PatchType {
	case PatchAddContent:
		return f.addContent(p)
	case PatchAddToolCall:
		return f.addToolCall(p)
	case PatchToolResult:
		return f.toolResult(p)
	default:
		return nil // progress and retries change no turn
	}
}

// addContent appends the part of a delta that the turn does not have. A delta belongs to the
// last block of its type. Offset 0 starts a new block unless the turn ends with a block of that
// type: then it repeats the start of that block.
func (f *TurnFold) addContent(p turnEvent) error {
	at := -1

	for i := len(f.turn.Blocks) - 1; i >= 0; i-- {
		if f.turn.Blocks[i].Type == p.BlockType {
			at = i
			break
		}
	}

	if at < 0 || (p.Offset == 0 && at < len(f.turn.Blocks)-1) {
		if p.Offset != 0 {
			return fmt.Errorf("text at offset %d of a block that was never begun", p.Offset)
		}

		f.turn.Blocks = append(f.turn.Blocks, Block{Type: p.BlockType})
		at = len(f.turn.Blocks) - 1
	}

	g := f.growing[at]
	if g == nil {
		text := f.turn.Blocks[at].Content
		g = &growingText{text: []byte(text), units: UTF16Len(text)}
		f.growing[at] = g
	}

	if p.Offset < 0 || p.Offset > g.units {
		return fmt.Errorf("text at offset %d of a block that has %d", p.Offset, g.units)
	}

	rest, ok := SkipUTF16(p.TextDelta, g.units-p.Offset)
	if !ok {
		return fmt.Errorf("text at offset %d begins inside a character", p.Offset)
	}

	g.text = append(g.text, rest...)
	g.units += UTF16Len(rest)

	return nil
}

func (f *TurnFold) addToolCall(p turnEvent) error {
	if p.ToolCall == nil || p.ToolCall.ID == "" {
		return fmt.Errorf("%s without a tool call", p.PatchType)
	}

	call := *p.ToolCall
	if f.call(call.ID) != nil {
		return nil
	}

	if call.Phase == "" {
		call.Phase = PhaseQueued
	}

	f.turn.ToolCalls = append(f.turn.ToolCalls, call)
	if !f.hasBlock(BlockToolUse, call.ID) {
		f.turn.Blocks = append(f.turn.Blocks, toolBlock(BlockToolUse, call, call.Arguments))
	}

	return nil
}

func (f *TurnFold) toolResult(p turnEvent) error {
	call := f.call(p.ToolCallID)
	if call == nil {
		return fmt.Errorf("result of tool call %s, which the turn does not have", p.ToolCallID)
	}

	call.Result, call.Status, call.DurationMS = p.Result, ToolCallStatus(p.Status), p.DurationMS
	call.Connections, call.Images = p.Connections, p.Images

	call.PendingQuestionRef = nil
	if call.Phase != PhaseUnknownOutcome {
		call.Phase = PhaseFinished
	}

	if !f.hasBlock(BlockToolResult, call.ID) {
		f.turn.Blocks = append(f.turn.Blocks, toolBlock(BlockToolResult, *call, p.Result))
	}

	return nil
}

func (f *TurnFold) call(id string) *ToolCall {
	for i := range f.turn.ToolCalls {
		if f.turn.ToolCalls[i].ID == id {
			return &f.turn.ToolCalls[i]
		}
	}

	return nil
}

func (f *TurnFold) hasBlock(kind BlockType, callID string) bool {
	for _, b := range f.turn.Blocks {
		if b.Type == kind && b.ToolCallID != nil && *b.ToolCallID == callID {
			return true
		}
	}

	return false
}

func toolBlock(kind BlockType, call ToolCall, content string) Block {
	return Block{Type: kind, Content: content, ToolCallID: &call.ID, ToolName: &call.ToolName, DisplayName: &call.DisplayName}
}

// Open reports whether the turn can receive events: it streams, or is paused on a question.
func (t Turn) Open() bool { return t.Status == TurnStreaming || t.Status == TurnPaused }

// UTF16Len returns the length of text in UTF-16 code units, the unit of JavaScript strings and
// of `offset` (docs/events.md#turnpatch).
func UTF16Len(text string) int {
	units := 0
	for _, r := range text {
		if units++; r > 0xffff {
			units++
		}
	}

	return units
}

// SkipUTF16 returns text without its first units UTF-16 code units; empty when it has no more.
// ok is false when the cut would split a character.
func SkipUTF16(text string, units int) (rest string, ok bool) {
	for units > 0 && text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if units--; r > 0xffff {
			units--
		}

		text = text[size:]
	}

	return text, units >= 0
}
