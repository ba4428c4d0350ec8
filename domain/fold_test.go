package domain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"everloop/domain"
)

func event(seq uint64, name, data string) domain.LoggedEvent {
	return domain.LoggedEvent{
		Event: domain.Event{SessionID: "s", ChatID: "c", Name: name, At: time.Unix(5, 0), Data: json.RawMessage(data)}, Seq: seq,
	}
}

func delta(t, kind, text string, offset int) domain.LoggedEvent {
	data, err := json.Marshal(map[string]any{
		"turn_id": t, "patch_type": "add_content", "block_type": kind, "text_delta": text, "offset": offset,
	})
	if err != nil {
		panic(err)
	}

	return event(0, domain.EventTurnPatch, string(data))
}

const startT1 = `{"turn_id":"t1","sequence":3,"role":"assistant","status":"streaming","loop_id":"root","kind":"message",
	"model":"m","started_at":"2026-01-02T03:04:05Z","parent_fork_tool_call_id":"call_p","blocks":[]}`

func TestFoldWholeTurn(t *testing.T) {
	turn := domain.Turn{TurnID: "t1"}
	for _, e := range []domain.LoggedEvent{
		event(1, domain.EventTurnStart, startT1),
		delta("t1", "thinking", "hm", 0),
		delta("t1", "thinking", "m…", 2),
		delta("t2", "text", "of another turn", 0),
		delta("t1", "text", "Look: ", 0),
		event(4, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"retry","attempt":2}`),
		event(5, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"add_tool_call","tool_call":
			{"id":"call_1","tool_name":"Bash","display_name":"Run","arguments":"{\"command\":\"ls\"}","status":"pending"}}`),
		event(6, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"tool_progress","tool_call_id":"call_1","text_delta":"a"}`),
		event(7, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"tool_result","tool_call_id":"call_1","result":"a b",
			"status":"done","duration_ms":12,"connections":[{"host":"example.org","port":443,"decision":"allowed","count":2}],
			"images":[{"attachment":"ab","mime_type":"image/png","bytes":5}]}`),
		delta("t1", "text", "done", 0),
		event(8, domain.EventChatEnd, `{"status":"completed"}`),
		event(9, domain.EventTurnEnd, `{"turn_id":"t1","status":"failed","usage":{"input_tokens":1,"output_tokens":2},
			"duration_ms":30,"failure_reason":"cut"}`),
	} {
		require.NoError(t, domain.FoldTurn(&turn, e))
	}

	id, tool, display, parent, cut := "call_1", "Bash", "Run", "call_p", "cut"
	require.Equal(t, domain.Turn{
		ID: "t1", TurnID: "t1", Sequence: 3, ChatID: "c", LoopID: "root", Kind: "message", Role: domain.RoleAssistant,
		Status: domain.TurnFailed, Model: "m", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		ParentForkToolCallID: &parent, Usage: domain.Usage{InputTokens: 1, OutputTokens: 2}, DurationMS: 30, FailureReason: &cut,
		Blocks: []domain.Block{
			{Type: domain.BlockThinking, Content: "hmm…"},
			{Type: domain.BlockText, Content: "Look: "},
			{Type: domain.BlockToolUse, Content: `{"command":"ls"}`, ToolCallID: &id, ToolName: &tool, DisplayName: &display},
			{Type: domain.BlockToolResult, Content: "a b", ToolCallID: &id, ToolName: &tool, DisplayName: &display},
			{Type: domain.BlockText, Content: "done"},
		},
		ToolCalls: []domain.ToolCall{{
			ID: "call_1", ToolName: "Bash", DisplayName: "Run", Arguments: `{"command":"ls"}`, Status: domain.CallDone,
			Result: "a b", DurationMS: 12, Phase: domain.PhaseFinished,
			Connections: []domain.Connection{{Host: "example.org", Port: 443, Decision: domain.ConnectionAllowed, Count: 2}},
			Images:      []domain.CallImage{{Attachment: "ab", MimeType: "image/png", Bytes: 5}},
		}},
	}, turn)
}

func TestFoldUserTurnBringsItsBlocks(t *testing.T) {
	turn := domain.Turn{TurnID: "u1"}
	require.NoError(t, domain.FoldTurn(&turn, event(1, domain.EventTurnStart,
		`{"turn_id":"u1","role":"user","status":"completed","blocks":[{"type":"text","content":"hello"}]}`)))
	require.Equal(t, "hello", turn.Blocks[0].Content)
	require.Equal(t, time.Unix(5, 0), turn.StartedAt)
	require.False(t, turn.Open())
}

func TestFoldRepeatsChangeNothing(t *testing.T) {
	turn := domain.Turn{TurnID: "t1"}
	call := event(2, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"add_tool_call","tool_call":{"id":"call_1","status":"pending"}}`)

	result := event(
		3,
		domain.EventTurnPatch,
		`{"turn_id":"t1","patch_type":"tool_result","tool_call_id":"call_1","result":"r","status":"error"}`,
	)
	for range 2 {
		for _, e := range []domain.LoggedEvent{event(1, domain.EventTurnStart, startT1), call, result, call} {
			require.NoError(t, domain.FoldTurn(&turn, e))
		}
	}

	require.Len(t, turn.Blocks, 2)
	require.Len(t, turn.ToolCalls, 1)
	require.Equal(t, domain.CallError, turn.ToolCalls[0].Status)
}

func TestFoldPausedTurnIsOpenUntilItsSecondEnd(t *testing.T) {
	turn := domain.Turn{TurnID: "t1"}
	for _, step := range []struct {
		name, data string
		open       bool
	}{
		{domain.EventTurnStart, startT1, true},
		{domain.EventTurnEnd, `{"turn_id":"t1","status":"paused"}`, true},
		{domain.EventTurnEnd, `{"turn_id":"t1","status":"completed"}`, false},
	} {
		require.NoError(t, domain.FoldTurn(&turn, event(1, step.name, step.data)))
		require.Equal(t, step.open, turn.Open())
	}
}

func TestFoldRefusesWhatDoesNotJoin(t *testing.T) {
	turn := domain.Turn{TurnID: "t1", Status: domain.TurnStreaming, Blocks: []domain.Block{{Type: domain.BlockText, Content: "a😀"}}}
	for _, e := range []domain.LoggedEvent{
		delta("t1", "text", "x", 4),
		delta("t1", "thinking", "x", 1),
		delta("t1", "text", "z", -1),
		delta("t1", "text", "bc😀", 0), // three units are known: the cut goes through the second one's pair
		event(1, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"add_tool_call"}`),
		event(1, domain.EventTurnPatch, `{"turn_id":"t1","patch_type":"tool_result","tool_call_id":"call_x"}`),
		event(1, domain.EventTurnPatch, `{"turn_id":3}`),
	} {
		before := turn
		require.Error(t, domain.FoldTurn(&turn, e), string(e.Data))
		require.Equal(t, before.Blocks, turn.Blocks)
	}
}

// TestFoldFromAnyFlush: wherever the text in the database ends, folding an overlap
// of the stream that begins anywhere in the current run of text gives the whole text.
func TestFoldFromAnyFlush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "é", "😀", "日本", "𝄞x", "\n", `"<&>`, "👩‍👩‍👧"})

		var stream []domain.LoggedEvent

		whole := map[string]string{}

		for _, kind := range []string{"thinking", "text"} {
			units := 0

			for _, words := range rapid.SliceOfN(rapid.SliceOfN(word, 1, 4), 1, 12).Draw(t, kind) {
				text := strings.Join(words, "")
				stream = append(stream, delta("t1", kind, text, units))
				units += len(utf16.Encode([]rune(text)))
				whole[kind] += text
			}
		}

		flushed := rapid.IntRange(0, len(stream)).Draw(t, "flushed")

		fold := domain.NewTurnFold(domain.Turn{TurnID: "t1"})
		for _, e := range stream[:flushed] {
			require.NoError(t, fold.Apply(e))
		}

		turn := fold.Turn()

		from := rapid.IntRange(0, flushed).Draw(t, "from")
		for from > 0 && from < flushed && kindOf(stream[from]) != kindOf(stream[flushed-1]) {
			from++ // an overlap is within the block that grows
		}

		if from == 0 && flushed > 0 && kindOf(stream[0]) != kindOf(stream[flushed-1]) {
			from = flushed
		}

		for _, e := range stream[from:] {
			require.NoError(t, domain.FoldTurn(&turn, e))
		}

		require.Len(t, turn.Blocks, 2)

		for _, b := range turn.Blocks {
			require.Equal(t, whole[string(b.Type)], b.Content)
		}
	})
}

func kindOf(e domain.LoggedEvent) string {
	var p struct {
		BlockType string `json:"block_type"`
	}

	_ = json.Unmarshal(e.Data, &p)

	return p.BlockType
}

func TestUTF16(t *testing.T) {
	require.Equal(t, 5, domain.UTF16Len("aé😀z"))

	rest, ok := domain.SkipUTF16("aé😀z", 4)
	require.True(t, ok)
	require.Equal(t, "z", rest)

	_, ok = domain.SkipUTF16("😀", 1)
	require.False(t, ok)
	rest, ok = domain.SkipUTF16("a", 7)
	require.True(t, ok)
	require.Empty(t, rest)
}
