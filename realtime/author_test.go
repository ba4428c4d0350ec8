package realtime_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"everloop/domain"
)

// author writes a session as the agent does: each change goes to the database
// first and to the log then, the streamed text is flushed now and again.
type author struct {
	env     *env
	session domain.SessionID
	random  *rand.Rand
	pause   time.Duration // the longest wait between two events, 0 for none
	live    domain.LiveState
	ending  map[domain.TurnID]bool   // ended in the database, not in the log
	said    map[domain.TurnID]string // turn id → its text in the end
	events  []domain.LoggedEvent
	number  int64
}

func (s *env) author(session string, seed uint64) *author {
	return &author{
		env: s, session: domain.SessionID(session), random: rand.New(rand.NewPCG(seed, 7)),
		said: map[domain.TurnID]string{}, ending: map[domain.TurnID]bool{},
	}
}

var words = []string{"a ", "é", "😀", "日本", "𝄞", "\n", `"<&>`, "👩‍👩‍👧 ", "long and plain words "}

func (a *author) publish(name string, data map[string]any) uint64 {
	e := event(a.session, name, data)
	seq := a.env.publish(e)

	logged := domain.LoggedEvent{Event: e, Seq: seq}
	if n := len(a.events); n > 0 {
		logged.PrevSeq = a.events[n-1].Seq
	}

	a.events = append(a.events, logged)
	if a.pause > 0 {
		time.Sleep(time.Duration(a.random.Int64N(int64(a.pause)))) //nolint:forbidigo // pace of a model, not synchronisation
	}

	return seq
}

func (a *author) record() {
	live := a.live

	live.OpenTurns = slices.Clone(a.live.OpenTurns)
	for i := range live.OpenTurns {
		live.OpenTurns[i].Blocks = slices.Clone(live.OpenTurns[i].Blocks)
		live.OpenTurns[i].ToolCalls = slices.Clone(live.OpenTurns[i].ToolCalls)
	}

	live.TurnsAfter = a.last()

	for _, turn := range live.OpenTurns {
		live.TurnsAfter = min(live.TurnsAfter, a.env.state.startOf(turn.TurnID))
	}

	for id := range a.ending {
		live.TurnsAfter = min(live.TurnsAfter, a.env.state.startOf(id))
	}

	a.env.state.set(a.session, live)
}

// last is the sequence of the session's newest event, 0 before the first.
func (a *author) last() uint64 {
	if len(a.events) == 0 {
		return 0
	}

	return a.events[len(a.events)-1].Seq
}

// turn writes one assistant turn, with a paused part in the middle of some.
func (a *author) turn() {
	a.number++
	id := domain.NewID()
	turn := domain.OpenTurn{Turn: domain.Turn{
		ID: domain.TurnID(
			id,
		),
		TurnID:        domain.TurnID(id),
		Sequence:      a.number,
		ChatID:        "c1",
		LoopID:        domain.RootLoop,
		Kind:          domain.KindMessage,
		Role:          domain.RoleAssistant,
		Status:        domain.TurnStreaming,
		Model:         "m",
		StartedAt:     time.Now(),
		ContextWindow: 128,
	}, SessionID: a.session}
	a.env.state.starts(turn.TurnID, a.last())
	a.live.OpenTurns = append(a.live.OpenTurns, turn)
	a.record()
	a.publish(domain.EventTurnStart, map[string]any{
		"turn_id": id, "sequence": a.number, "role": "assistant", "status": "streaming", "loop_id": domain.RootLoop,
		"kind": domain.KindMessage, "model": "m", "started_at": turn.StartedAt, "blocks": []any{},
	})
	at := len(a.live.OpenTurns) - 1

	var blocks []domain.Block
	for _, kind := range []domain.BlockType{domain.BlockThinking, domain.BlockText} {
		blocks = append(blocks, domain.Block{Type: kind})

		block := &blocks[len(blocks)-1]
		for range 1 + a.random.IntN(15) {
			delta := strings.Repeat(words[a.random.IntN(len(words))], 1+a.random.IntN(3))
			seq := a.publish(domain.EventTurnPatch, map[string]any{
				"turn_id": id, "patch_type": domain.PatchAddContent, "block_type": kind, "text_delta": delta,
				"offset": units(block.Content),
			})
			block.Content += delta

			if a.random.IntN(4) == 0 {
				a.live.OpenTurns[at].Blocks, a.live.OpenTurns[at].FlushedSeq = slices.Clone(blocks), seq
				a.record()
			}
		}
	}

	a.said[domain.TurnID(id)] = text(blocks)
	status := "completed"

	switch a.random.IntN(4) {
	case 0:
		a.tools(id, at)
	case 1:
		status = "failed"
	case 2:
		a.live.OpenTurns[at].Status = domain.TurnPaused
		a.live.OpenTurns[at].Blocks = slices.Clone(blocks)
		a.record()
		a.publish(domain.EventTurnEnd, map[string]any{"turn_id": id, "status": "paused"})
		a.publish(domain.EventChatEnd, map[string]any{"status": "completed", "finish_reason": "awaiting_answer"})
		a.publish(domain.EventChatStart, map[string]any{"trigger": "answer"})
	}

	a.live.OpenTurns = slices.Delete(a.live.OpenTurns, at, at+1)
	a.ending[domain.TurnID(id)] = true
	a.record() // closed in the database before the log knows
	a.publish(domain.EventTurnEnd, map[string]any{
		"turn_id": id, "status": status, "usage": map[string]any{"input_tokens": 1, "output_tokens": 2}, "duration_ms": 5,
	})
	delete(a.ending, domain.TurnID(id))
	a.record()
	a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": id, "patch_type": domain.PatchToolResult, "tool_call_id": "late", "result": "r", "status": "done",
	})
}

// tools records a call, which may be ahead of the log, and then emits its event.
func (a *author) tools(id string, at int) {
	call := domain.ToolCall{
		ID: domain.NewToolCallID(), ToolName: "Bash", DisplayName: "Run", Arguments: "{}", Status: domain.CallDone,
		Result: "out", DurationMS: 3, Phase: domain.PhaseFinished,
	}
	a.live.OpenTurns[at].ToolCalls = []domain.ToolCall{call}
	a.record()
	a.publish(domain.EventTurnPatch, map[string]any{"turn_id": id, "patch_type": domain.PatchAddToolCall, "tool_call": map[string]any{
		"id": call.ID, "tool_name": call.ToolName, "display_name": call.DisplayName, "arguments": call.Arguments, "status": "pending",
	}})
	a.publish(domain.EventTurnPatch, map[string]any{"turn_id": id, "patch_type": domain.PatchToolProgress, "tool_call_id": call.ID})
	a.publish(domain.EventTurnPatch, map[string]any{
		"turn_id": id, "patch_type": domain.PatchToolResult, "tool_call_id": call.ID, "result": "out", "status": "done", "duration_ms": 3,
	})
}
