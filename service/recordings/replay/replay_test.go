package replay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/domain/transfer"
)

var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// recording is a session as it was: its records, and its events.
type recording struct {
	t       *testing.T
	session domain.SessionID
	tree    transfer.SessionTree
	entries []transfer.EntryRecord
	events  []domain.LoggedEvent
	at      time.Time
}

func newRecording(t *testing.T) *recording {
	r := &recording{t: t, session: domain.SessionID(domain.NewID()), at: began}
	r.tree.ActiveBranchID = domain.BranchID(domain.NewID())
	r.tree.Branches = []transfer.BranchRecord{{ID: r.tree.ActiveBranchID}}

	return r
}

func (r *recording) emit(name, chat string, payload any) {
	r.t.Helper()

	data, err := json.Marshal(payload)
	require.NoError(r.t, err)
	r.events = append(r.events, domain.LoggedEvent{
		Event: domain.Event{
			ID:        domain.NewID(),
			SessionID: r.session,
			Name:      name,
			ChatID:    domain.ChatID(chat),
			At:        r.at,
			Data:      data,
		},
		Seq: uint64(len(r.events) + 1),
	})
	r.at = r.at.Add(100 * time.Millisecond)
}

func (r *recording) entry(e transfer.EntryRecord) *transfer.EntryRecord {
	e.ID, e.BranchID, e.Sequence, e.LoopID, e.Kind = domain.TurnID(domain.NewID()), r.tree.ActiveBranchID, int64(
		len(r.entries),
	), domain.RootLoop, domain.KindMessage
	e.StartedAt = r.at
	r.entries = append(r.entries, e)

	return &r.entries[len(r.entries)-1]
}

// chat plays a chat with a message, an answer that calls a tool, and another
// answer. With ask the tool is a question that is answered.
func (r *recording) chat(message string, ask bool) domain.ChatID {
	chat := domain.ChatID(domain.NewID())
	reason := domain.FinishCompleted
	r.tree.Chats = append(
		r.tree.Chats,
		transfer.ChatRecord{ID: chat, Mode: domain.ModeExecuting, State: "ended", FinishReason: &reason, Steps: 2},
	)
	r.emit(domain.EventChatStart, string(chat), domain.ChatStarted{Mode: domain.ModeExecuting, Trigger: domain.TriggerUser})
	user := r.entry(transfer.EntryRecord{
		ChatID: chat, Role: domain.RoleUser, Status: domain.TurnCompleted,
		Blocks: []domain.Block{{Type: domain.BlockText, Content: message}}, Parts: []domain.ContentPart{{Type: "text", Text: message}},
	})
	r.emit(
		domain.EventTurnStart,
		string(chat),
		domain.TurnStarted{
			TurnID: user.ID,
			Role:   user.Role,
			Status: user.Status,
			LoopID: user.LoopID,
			Kind:   user.Kind,
			Blocks: user.Blocks,
		},
	)
	r.emit(domain.EventTurnEnd, string(chat), domain.TurnEnded{TurnID: user.ID, Status: user.Status})

	call := transfer.CallRecord{
		ID:           domain.NewToolCallID(),
		ToolName:     "Bash",
		DisplayName:  "Bash",
		Arguments:    `{"command":"ls"}`,
		Status:       domain.CallDone,
		Phase:        domain.PhaseFinished,
		Result:       "a\nb",
		DurationMS:   20,
		ServerCallID: "functions.Bash:" + strconv.Itoa(len(r.entries)),
		Images:       []domain.CallImage{{Attachment: strings.Repeat("0a", 32), MimeType: "image/png", Bytes: 9}},
	}
	if ask {
		call.ToolName, call.Question = "AskUserQuestion", &transfer.QuestionRecord{ID: domain.NewID(), State: "answered"}
	}

	first := r.entry(transfer.EntryRecord{
		ChatID:         chat,
		Role:           domain.RoleAssistant,
		Status:         domain.TurnCompleted,
		Step:           1,
		DurationMS:     300,
		ReasoningField: domain.Reasoning,
		Blocks: []domain.Block{
			{Type: domain.BlockThinking, Content: "hm"},
			{Type: domain.BlockText, Content: "héllo 😀 there"},
		},
		Calls: []transfer.CallRecord{call},
	})
	r.stream(first)

	status, shown := domain.TurnCompleted, domain.CallPending
	if ask {
		status, shown = domain.TurnPaused, domain.CallAwaitingAnswer
	}

	added := map[string]any{
		"id":           call.ID,
		"tool_name":    call.ToolName,
		"display_name": call.DisplayName,
		"arguments":    call.Arguments,
		"status":       shown,
	}
	if ask {
		added["pending_question_ref"] = domain.PendingQuestionRef{QuestionID: call.Question.ID, AskedAt: r.at}
	}

	r.emit(
		domain.EventTurnPatch,
		string(chat),
		map[string]any{"turn_id": first.ID, "patch_type": domain.PatchAddToolCall, "tool_call": added},
	)
	r.emit(domain.EventTurnEnd, string(chat), domain.TurnEnded{TurnID: first.ID, Status: status, DurationMS: 300})

	if ask {
		r.emit(domain.EventChatEnd, string(chat), domain.ChatEnded{Status: "completed", FinishReason: domain.FinishAwaitingAnswer})
		r.at = r.at.Add(time.Hour)
		r.emit(
			domain.EventQuestionResolved,
			string(chat),
			map[string]any{"question_id": call.Question.ID, "tool_call_id": call.ID, "resolution": "answered", "by": "x"},
		)
	}

	r.emit(
		domain.EventTurnPatch,
		string(chat),
		domain.ToolResultPatch{
			TurnID:     first.ID,
			PatchType:  domain.PatchToolResult,
			ToolCallID: call.ID,
			Result:     call.Result,
			Status:     call.Status,
			DurationMS: 20,
			Images:     call.Images,
		},
	)

	if ask {
		r.emit(domain.EventTurnEnd, string(chat), domain.TurnEnded{TurnID: first.ID, Status: domain.TurnCompleted})
		r.emit(domain.EventChatStart, string(chat), domain.ChatStarted{Mode: domain.ModeExecuting, Trigger: domain.TriggerAnswer})
	}

	last := r.entry(transfer.EntryRecord{
		ChatID: chat, Role: domain.RoleAssistant, Status: domain.TurnCompleted, Step: 2,
		Blocks: []domain.Block{{Type: domain.BlockText, Content: "that was " + message}},
	})
	r.stream(last)
	r.emit(domain.EventTurnEnd, string(chat), domain.TurnEnded{TurnID: last.ID, Status: last.Status})
	r.emit(domain.EventChatEnd, string(chat), domain.ChatEnded{Status: "completed", FinishReason: domain.FinishCompleted, Steps: 2})

	return chat
}

// stream is the events of an assistant turn's text, a few characters at a time.
func (r *recording) stream(e *transfer.EntryRecord) {
	r.emit(
		domain.EventTurnStart,
		string(e.ChatID),
		domain.TurnStarted{
			TurnID: e.ID,
			Role:   e.Role,
			Status: domain.TurnStreaming,
			LoopID: e.LoopID,
			Kind:   e.Kind,
			Blocks: []domain.Block{},
		},
	)

	for _, b := range e.Blocks {
		sent := 0

		for runes := []rune(b.Content); len(runes) > 0; {
			n := min(3, len(runes))
			piece := string(runes[:n])
			r.emit(
				domain.EventTurnPatch,
				string(e.ChatID),
				domain.AddContentPatch{TurnID: e.ID, PatchType: domain.PatchAddContent, TextDelta: piece, BlockType: b.Type, Offset: sent},
			)
			sent, runes = sent+domain.UTF16Len(piece), runes[n:]
		}
	}
}

// script makes the script from the database and what is left of the events.
func (r *recording) script(events []domain.LoggedEvent) []replay.Step {
	r.t.Helper()
	src := newSource(r.session)
	require.NoError(r.t, src.frame(r.tree))

	for _, e := range r.entries {
		require.NoError(r.t, src.entry(e))
	}

	require.Empty(r.t, src.reason(domain.Session{Status: domain.SessionCompleted}))

	for _, e := range events {
		require.NoError(r.t, src.event(e))
	}

	steps, err := src.script("new-session", "new-branch")
	require.NoError(r.t, err)

	return steps
}

// audience holds what is played to the rules of events, and keeps the turns.
type audience struct {
	t     *testing.T
	turns map[domain.TurnID]*domain.TurnFold
	order []string
	ended map[string]string
	chats map[domain.ChatID]string // id: open or ended
	calls map[string]bool          // id: has a result

	serverIDs []string // of the calls, in order
	fields    []string // in which turns were sent that think
}

func watch(t *testing.T) *audience {
	return &audience{
		t:     t,
		turns: map[domain.TurnID]*domain.TurnFold{},
		ended: map[string]string{},
		chats: map[domain.ChatID]string{},
		calls: map[string]bool{},
	}
}

func (a *audience) take(step replay.Step) {
	a.t.Helper()

	e, err := parse(step.Data)
	require.NoError(a.t, err)

	switch step.Name {
	case replay.Cut: // what the hand-over closes
		for _, id := range a.order {
			if a.ended[id] == "" || a.ended[id] == "paused" {
				a.ended[id] = "interrupted"
			}
		}

		for id := range a.calls {
			a.calls[id] = true
		}

		for id := range a.chats {
			a.chats[id] = "ended"
		}
	case domain.EventChatStart:
		for id, state := range a.chats {
			require.Equal(a.t, "ended", state, "chat %s still runs", id)
		}

		if e.Trigger == domain.TriggerAnswer {
			require.Contains(a.t, a.chats, step.ChatID)
		} else {
			require.Equal(a.t, domain.TriggerReplay, e.Trigger)
			require.NotContains(a.t, a.chats, step.ChatID)
		}

		a.chats[step.ChatID] = "open"
	case domain.EventChatEnd:
		require.Equal(a.t, "open", a.chats[step.ChatID])

		a.chats[step.ChatID] = "ended"
		for id, end := range a.ended {
			require.NotEmpty(a.t, end, "turn %s is open at the end of a chat", id)
		}
	case domain.EventTurnStart:
		require.Equal(a.t, "open", a.chats[step.ChatID], "a turn outside of its chat")
		require.NotContains(a.t, a.turns, e.TurnID)
		a.turns[e.TurnID] = domain.NewTurnFold(domain.Turn{TurnID: e.TurnID})
		a.order = append(a.order, string(e.TurnID))

		a.ended[string(e.TurnID)] = ""
		if step.Entry.ReasoningField != "" {
			a.fields = append(a.fields, step.Entry.ReasoningField)
		}
	case domain.EventTurnEnd:
		require.Contains(a.t, a.turns, e.TurnID)
		require.Contains(a.t, []string{"", "paused"}, a.ended[string(e.TurnID)], "turn %s ends twice", e.TurnID)
		a.ended[string(e.TurnID)] = e.Status
	case domain.EventTurnPatch:
		require.Contains(a.t, a.turns, e.TurnID)

		if e.PatchType == domain.PatchAddToolCall {
			require.NotContains(a.t, a.calls, e.ToolCall.ID)
			a.calls[e.ToolCall.ID] = false
			a.serverIDs = append(a.serverIDs, step.ServerCallID)
		} else {
			require.Empty(a.t, step.ServerCallID)
		}

		if e.PatchType == domain.PatchToolResult {
			require.False(a.t, a.calls[e.ToolCallID], "call %s has two results", e.ToolCallID)
			a.calls[e.ToolCallID] = true
		}
	}

	if fold := a.turns[e.TurnID]; fold != nil {
		require.NoError(a.t, fold.Apply(domain.LoggedEvent{Event: domain.Event{Name: step.Name, ChatID: step.ChatID, Data: step.Data}}))
	}
}

// said returns the turns that ended well, with their text and results.
func (a *audience) said() []string {
	var out []string

	for _, id := range a.order {
		turn := a.turns[domain.TurnID(id)].Turn()
		if a.ended[id] != "completed" {
			continue
		}

		var text strings.Builder
		for _, b := range turn.Blocks {
			fmt.Fprintf(&text, "%s:%s|", b.Type, b.Content)
		}

		out = append(out, string(turn.Role)+" "+text.String())
	}

	return out
}

func (a *audience) whole(r *recording) {
	a.t.Helper()
	require.Len(a.t, a.order, len(r.entries))
	said := strings.Join(a.said(), "\n")

	var (
		serverIDs, fields []string
		images, shown     []domain.CallImage
	)

	for _, id := range a.order {
		for _, c := range a.turns[domain.TurnID(id)].Turn().ToolCalls {
			shown = append(shown, c.Images...)
		}
	}

	for _, e := range r.entries {
		if e.ReasoningField != "" {
			fields = append(fields, e.ReasoningField)
		}

		for _, c := range e.Calls {
			serverIDs = append(serverIDs, c.ServerCallID)
			images = append(images, c.Images...)
		}

		for _, b := range e.Blocks {
			require.Contains(a.t, said, b.Content)
		}

		for _, c := range e.Calls {
			require.Contains(a.t, said, c.Result)
		}
	}

	require.Equal(a.t, images, shown)
	require.Equal(a.t, serverIDs, a.serverIDs)
	require.Equal(a.t, fields, a.fields)

	for id, state := range a.chats {
		require.Equal(a.t, "ended", state, id)
	}
}

func TestTheRecordedEventsArePlayedAsTheyWere(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", false)
	r.chat("two", true)
	steps := r.script(r.events)
	require.Len(t, steps, len(r.events), "every event is played")

	a := watch(t)
	for i, step := range steps {
		require.Equal(t, r.events[i].Name, step.Name)

		if i > 0 {
			require.Equal(t, r.events[i].At.Sub(r.events[i-1].At).Milliseconds(), step.Gap)
		}

		a.take(step)
	}

	a.whole(r)

	text, err := json.Marshal(steps)
	require.NoError(t, err)

	for _, e := range r.entries { // nothing of the source is named
		require.NotContains(t, string(text), e.ID)
		require.NotContains(t, string(text), e.ChatID)

		for _, c := range e.Calls {
			require.NotContains(t, string(text), c.ID)

			if c.Question != nil {
				require.NotContains(t, string(text), c.Question.ID)
			}
		}
	}

	require.Equal(t, []domain.ContentPart{{Type: "text", Text: "one"}}, steps[1].Entry.Parts)
	packed, err := Encode(steps)
	require.NoError(t, err)
	unpacked, err := Decode(packed)
	require.NoError(t, err)
	require.Equal(t, steps, unpacked)
}

func TestChatsWhoseEventsAreGone_comeFromTheDatabase(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", false)
	r.chat("two", true)

	for gone := 0; gone <= len(r.events); gone++ { // the log forgets from its beginning on
		a := watch(t)
		for _, step := range r.script(r.events[gone:]) {
			a.take(step)
		}

		a.whole(r)
	}

	for hole := range r.events { // or has lost one in the middle
		a := watch(t)
		for _, step := range r.script(append(append([]domain.LoggedEvent{}, r.events[:hole]...), r.events[hole+1:]...)) {
			a.take(step)
		}

		a.whole(r)
	}
}

func TestPlayingGoesOnBehindAnInterruptionAnywhere(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", true)
	r.chat("two", false)

	steps := r.script(r.events)
	for at := range len(steps) + 1 {
		again, position, err := resume(steps, at)
		require.NoError(t, err)
		require.Equal(t, at+1, position)
		require.Equal(t, steps[:at], again[:at], "what was played stays")
		require.Equal(t, replay.Cut, again[at].Name)

		a := watch(t)
		for _, step := range again {
			a.take(step)
		}

		for id, state := range a.chats {
			require.Equal(t, "ended", state, "chat %s, interrupted at %d", id, at)
		}

		said := strings.Join(a.said(), "\n")

		for i, e := range r.entries {
			if e.Calls == nil { // a call may have been cancelled by the interruption
				require.Contains(t, said, e.Blocks[len(e.Blocks)-1].Content, "turn %d, interrupted at %d", i, at)
			}
		}

		twice, _, err := resume(again, min(position+3, len(again)))
		require.NoError(t, err)

		a = watch(t)
		for _, step := range twice {
			a.take(step)
		}
	}
}

func TestCheckpointsComeWithTheirTurns(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	chat := r.chat("one", false)
	before, after := string(r.session)+".aa", string(r.session)+".bb"

	r.tree.Checkpoints = []transfer.CheckpointRecord{
		{
			ID:         domain.CheckpointID(domain.NewID()),
			TurnID:     r.entries[0].ID,
			ChatID:     &chat,
			Kind:       domain.CheckpointUserTurn,
			Label:      "one",
			SnapshotID: &before,
		},
		{
			ID:         domain.CheckpointID(domain.NewID()),
			TurnID:     r.entries[1].ID,
			ChatID:     &chat,
			Kind:       domain.CheckpointToolBatch,
			SnapshotID: &after,
		},
	}
	for _, events := range [][]domain.LoggedEvent{r.events, nil} {
		steps := r.script(events)

		var files []string

		started := map[domain.TurnID]bool{}
		results := 0

		for _, step := range steps {
			e, err := parse(step.Data)
			require.NoError(t, err)

			if step.Name == domain.EventTurnStart {
				started[e.TurnID] = true
			}

			if e.PatchType == domain.PatchToolResult {
				results++
			}

			if step.Files != "" {
				files = append(files, step.Files)
				require.True(t, started[step.Checkpoint.TurnID], "a checkpoint comes after its turn began")
			}

			if step.Name == replay.Batch {
				require.Equal(t, 1, results, "the files of a batch are those behind its last result")
			}
		}

		require.Equal(t, []string{before, after}, files)
	}
}

func TestWhatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.chat("one", false)

	active := domain.ChatID("x")
	for want, session := range map[string]domain.Session{
		replay.Running: {Status: domain.SessionRunning, ActiveChatID: &active},
		"":             {Status: domain.SessionFailed},
	} {
		src := newSource(r.session)
		require.NoError(t, src.frame(r.tree))
		require.NoError(t, src.entry(r.entries[0]))
		require.Equal(t, want, src.reason(session))
	}

	empty := newSource(r.session)
	require.Equal(t, replay.NoTurns, empty.reason(domain.Session{Status: domain.SessionCreated}))

	odd := newSource(r.session)
	strange := r.entries[0]
	strange.Kind = "hologram"
	require.NoError(t, odd.entry(strange))
	require.Equal(t, replay.Unsupported, odd.reason(domain.Session{Status: domain.SessionCompleted}))
}
