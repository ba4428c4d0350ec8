package replay

import (
	"encoding/json"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
)

// rebuilt gives the moments of a chat from its records alone: each block of text
// is one delta, and the times are those at which turns and calls started and ended.
func (s *source) rebuilt(chatID domain.ChatID) ([]moment, error) {
	b := &rebuilder{chatID: chatID}
	chat, entries := s.chats[chatID], s.byChat[chatID]
	first, last := entries[0], entries[len(entries)-1]
	b.say(
		first.StartedAt,
		domain.EventChatStart,
		domain.ChatStarted{Mode: chat.Mode, Headless: chat.Headless, Trigger: domain.TriggerReplay},
	)

	for i := range entries {
		b.turn(&entries[i])
	}

	slices.SortStableFunc(b.moments, func(x, y moment) int { return x.at.Compare(y.at) })

	end := last.StartedAt
	if n := len(b.moments); n > 0 && b.moments[n-1].at.After(end) {
		end = b.moments[n-1].at
	}

	b.say(end, domain.EventChatEnd, endOf(chat, end.Sub(first.StartedAt)))

	return b.moments, b.err
}

func endOf(chat transfer.ChatRecord, took time.Duration) domain.ChatEnded {
	reason := domain.FinishCompleted
	if chat.FinishReason != nil {
		reason = *chat.FinishReason
	}

	if reason == domain.FinishAwaitingAnswer { // its question was cancelled afterwards
		reason = domain.FinishInterrupted
	}

	end := domain.ChatEnded{
		Status: reason.Status(), FinishReason: reason, Steps: chat.Steps, DurationMS: took.Milliseconds(),
		Usage: chat.Usage(),
	}
	if chat.ErrorCode != nil {
		end.Error = &domain.ChatError{Code: *chat.ErrorCode}
		if chat.ErrorMessage != nil {
			end.Error.Message = *chat.ErrorMessage
		}
	}

	return end
}

// rebuilder collects the moments of one chat.
type rebuilder struct {
	chatID  domain.ChatID
	moments []moment
	err     error
}

func (b *rebuilder) say(at time.Time, name string, payload any) *moment {
	data, err := json.Marshal(payload)
	if err != nil && b.err == nil {
		b.err = err
	}

	b.moments = append(b.moments, moment{at: at, name: name, chatID: b.chatID, data: data})

	return &b.moments[len(b.moments)-1]
}

func (b *rebuilder) turn(e *transfer.EntryRecord) {
	if e.Kind == domain.KindCompaction {
		b.compaction(e)
		return
	}

	start := domain.TurnStarted{
		TurnID: e.ID, Sequence: e.Sequence, Role: e.Role, Status: domain.TurnStreaming, LoopID: e.LoopID, Kind: e.Kind, Model: e.Model,
		ParentForkToolCallID: e.ParentForkToolCallID, Blocks: []domain.Block{},
	}
	if e.Role != domain.RoleAssistant {
		start.Status, start.Blocks = e.Status, e.Blocks
	}

	b.say(e.StartedAt, domain.EventTurnStart, start).entry = e
	took := time.Duration(e.DurationMS) * time.Millisecond

	ended := e.StartedAt.Add(took)
	if e.Role == domain.RoleAssistant {
		var kind domain.BlockType

		offset := 0

		for i, block := range e.Blocks {
			if block.Content == "" {
				continue
			}

			if block.Type != kind {
				kind, offset = block.Type, 0
			}

			b.say(e.StartedAt.Add(took*time.Duration(i+1)/time.Duration(len(e.Blocks)+1)), domain.EventTurnPatch, domain.AddContentPatch{
				TurnID: e.ID, PatchType: domain.PatchAddContent, TextDelta: block.Content, BlockType: block.Type, Offset: offset,
			})
			offset += domain.UTF16Len(block.Content)
		}

		for _, call := range e.Calls {
			b.say(ended, domain.EventTurnPatch, domain.AddToolCallPatch{
				TurnID:    e.ID,
				PatchType: domain.PatchAddToolCall,
				ToolCall: domain.PatchedToolCall{
					ID:          call.ID,
					ToolName:    call.ToolName,
					DisplayName: call.DisplayName,
					Arguments:   call.Arguments,
					Status:      domain.CallPending,
				},
			})
		}
	}

	end := domain.TurnEnded{TurnID: e.ID, Status: e.Status, Usage: e.Usage(), DurationMS: e.DurationMS}
	if e.FailureReason != nil {
		end.FailureReason = *e.FailureReason
	}

	b.say(ended, domain.EventTurnEnd, end)

	for _, call := range e.Calls {
		b.result(e, call, ended)
	}
}

func (b *rebuilder) result(e *transfer.EntryRecord, call transfer.CallRecord, after time.Time) {
	at := after
	if call.StartedAt != nil {
		if done := call.StartedAt.Add(time.Duration(call.DurationMS) * time.Millisecond); done.After(at) {
			at = done
		}
	}

	status := call.Status
	if status == domain.CallPending || status == domain.CallAwaitingAnswer {
		status = domain.CallCancelled
	}

	b.say(at, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID:      e.ID,
		PatchType:   domain.PatchToolResult,
		ToolCallID:  call.ID,
		Result:      call.Result,
		Status:      status,
		DurationMS:  call.DurationMS,
		Connections: call.Connections,
		Images:      call.Images,
	})
}

// compaction is the event of a compaction with the projection of its entry.
func (b *rebuilder) compaction(e *transfer.EntryRecord) {
	turn := domain.Turn{
		ID: e.ID, TurnID: e.ID, Sequence: e.Sequence, ChatID: e.ChatID, LoopID: e.LoopID, Kind: e.Kind, Role: e.Role, Status: e.Status,
		Blocks: []domain.Block{}, ToolCalls: []domain.ToolCall{}, Model: e.Model, DurationMS: e.DurationMS, StartedAt: e.StartedAt,
		Usage:         e.Usage(),
		ContextWindow: e.ContextWindow, ParentForkToolCallID: e.ParentForkToolCallID, FailureReason: e.FailureReason,
	}
	if err := json.Unmarshal(e.Compaction, &turn); err != nil && b.err == nil {
		b.err = err
	}

	b.say(e.StartedAt, domain.EventSessionCompacted, domain.SessionCompacted{Turn: turn}).entry = e
}
