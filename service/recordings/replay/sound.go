package replay

import (
	"bytes"
	"slices"

	"everloop/domain"
	"everloop/domain/transfer"
)

// sound reports that an event says of its turn what the store holds, in words that
// the store takes. Events of an imported session were written elsewhere:
// a chat with one that is not sound is put together from the database, as one
// whose events are gone.
func (s *source) sound(e domain.LoggedEvent, p event) bool {
	if bytes.Contains(e.Data, []byte(`\u0000`)) { // no text of the database holds it
		return false
	}

	switch e.Name {
	case domain.EventChatStart:
		return p.Mode == domain.ModeExecuting || p.Mode == domain.ModePlanning
	case domain.EventTurnStart:
		on := s.on[p.TurnID]
		known := p.Status == string(domain.TurnStreaming) || p.Status == string(domain.TurnCompleted)

		return on != nil && known && p.Role == on.Role && p.Kind == on.Kind && p.LoopID == on.LoopID &&
			sameID(p.ParentForkToolCallID, on.ParentForkToolCallID)
	case domain.EventTurnPatch:
		return s.soundPatch(p)
	case domain.EventQuestionResolved:
		return p.Resolution == "answered" || p.Resolution == "cancelled"
	case domain.EventSessionCompacted:
		on := s.on[p.turn()]

		return on != nil && p.Turn.Role == on.Role && p.Turn.Kind == on.Kind && p.Turn.Status == on.Status && p.Turn.LoopID == on.LoopID &&
			p.Turn.ChatID == on.ChatID
	}

	return true
}

func (s *source) soundPatch(p event) bool {
	switch p.PatchType {
	case domain.PatchAddToolCall:
		on := s.on[p.TurnID]
		if on == nil || p.ToolCall == nil || !knownStatus(p.ToolCall.Status) {
			return false
		}

		at := slices.IndexFunc(on.Calls, func(c transfer.CallRecord) bool { return c.ID == p.ToolCall.ID })
		if at < 0 {
			return false
		}

		ref, asked := p.ToolCall.PendingQuestionRef, on.Calls[at].Question

		return ref == nil || asked != nil && ref.QuestionID == asked.ID
	case domain.PatchToolResult:
		return knownStatus(domain.ToolCallStatus(p.Status))
	}

	return true
}

func knownStatus(status domain.ToolCallStatus) bool {
	return slices.Contains([]domain.ToolCallStatus{
		domain.CallPending, domain.CallDone, domain.CallError, domain.CallCancelled, domain.CallAwaitingAnswer,
	}, status)
}

func sameID(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}

	return *a == *b
}
