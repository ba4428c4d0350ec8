package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/domain/transfer"
	"everloop/service/recordings"
)

// moment is an event of the script with the time at which it was.
type moment struct {
	at     time.Time
	name   string
	chatID domain.ChatID // of the source
	data   json.RawMessage
	entry  *transfer.EntryRecord // with the event that starts a turn

	checkpoint *transfer.CheckpointRecord
	files      string
}

// script makes the steps that play the source as the session: chat by chat, of
// its events where all of them are there, else of its records.
func (s *source) script(sessionID domain.SessionID, branchID domain.BranchID) ([]replay.Step, error) {
	var moments []moment

	for _, id := range s.order {
		played, whole := s.recorded(domain.ChatID(id))
		if !whole {
			var err error
			if played, err = s.rebuilt(domain.ChatID(id)); err != nil {
				return nil, err
			}
		}

		moments = append(moments, s.withCheckpoints(domain.ChatID(id), played)...)
	}

	return s.renamed(moments, s.names(sessionID, branchID))
}

// names returns everything that has an id a new one. They are made in the order in
// which things appear, so that they sort as the old ones did.
func (s *source) names(sessionID domain.SessionID, branchID domain.BranchID) recordings.Names {
	names := recordings.Names{IDs: map[string]string{}, From: string(s.sessionID), To: string(sessionID)}
	for _, branch := range s.tree.Branches {
		names.IDs[string(branch.ID)] = string(branchID) // the replay has one branch
	}

	for _, id := range s.order {
		names.IDs[id] = domain.NewID()
		for _, e := range s.byChat[domain.ChatID(id)] {
			names.IDs[string(e.ID)] = domain.NewID()
			for _, call := range e.Calls {
				names.IDs[call.ID] = domain.NewToolCallID()
				if call.Question != nil {
					names.IDs[call.Question.ID] = domain.NewID()
				}
			}
		}
	}

	for _, k := range s.tree.Checkpoints {
		names.IDs[string(k.ID)] = domain.NewID()
	}

	return names
}

// renamed turns moments into steps of the new session.
func (s *source) renamed(moments []moment, names recordings.Names) ([]replay.Step, error) {
	steps := make([]replay.Step, 0, len(moments))

	var last time.Time

	for _, m := range moments {
		step := replay.Step{Name: m.name, ChatID: domain.ChatID(names.IDs[string(m.chatID)]), Files: m.files, Data: json.RawMessage("{}")}
		if !last.IsZero() {
			step.Gap = max(0, m.at.Sub(last).Milliseconds())
		}

		if m.at.After(last) {
			last = m.at
		}

		if m.data != nil {
			var err error
			if step.Data, err = names.Data(m.data); err != nil {
				return nil, fmt.Errorf("%s of chat %s: %w", m.name, m.chatID, err)
			}
		}

		if m.entry != nil {
			step.Entry = renamedEntry(*m.entry, names)
		}

		step.ServerCallID, step.ServerMembers = s.ofServer(m)
		if m.checkpoint != nil {
			k := *m.checkpoint
			k.ID, k.TurnID = domain.CheckpointID(names.IDs[string(k.ID)]), domain.TurnID(names.IDs[string(k.TurnID)])
			step.Checkpoint = &k
		}

		steps = append(steps, step)
	}

	return steps, nil
}

// ofServer returns the model server's id of the call that a moment adds, and what the server
// sent with it; events do not have them.
func (s *source) ofServer(m moment) (id, members string) {
	if m.name != domain.EventTurnPatch {
		return "", ""
	}

	p, err := parse(m.data)
	if err != nil || p.ToolCall == nil || s.on[p.TurnID] == nil {
		return "", ""
	}

	for _, call := range s.on[p.TurnID].Calls {
		if call.ID == p.ToolCall.ID {
			return call.ServerCallID, call.ServerMembers
		}
	}

	return "", ""
}

func renamedEntry(e transfer.EntryRecord, names recordings.Names) *replay.Entry {
	out := &replay.Entry{
		Step: e.Step, ContextWindow: e.ContextWindow, Deprecated: e.Deprecated, Parts: RenamedParts(e.Parts, names),
		ReasoningField: e.ReasoningField, ServerMembers: e.ServerMembers,
	}
	if len(e.Compaction) > 0 {
		if data, err := names.Data(e.Compaction); err == nil {
			out.Compaction = data
		}
	}

	return out
}

// RenamedParts gives a message's parts with its pictures and recordings where the other session
// has them.
func RenamedParts(parts []domain.ContentPart, names recordings.Names) []domain.ContentPart {
	if parts == nil {
		return nil
	}

	out := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		from, to := domain.ObjectScheme+"images/"+names.From+"/", domain.ObjectScheme+"images/"+names.To+"/"
		if name, kept := strings.CutPrefix(p.Attachment(), from); kept && name != "" {
			p = p.WithAttachment(to + name)
		}

		out[i] = p
	}

	return out
}

// withCheckpoints puts the checkpoints of a chat's turns where they were made: a
// user turn's behind it, that of a turn's tools behind their last result.
func (s *source) withCheckpoints(chatID domain.ChatID, moments []moment) []moment {
	user, batch := map[domain.TurnID]*transfer.CheckpointRecord{}, map[domain.TurnID]*transfer.CheckpointRecord{}

	for i := range s.tree.Checkpoints {
		k := &s.tree.Checkpoints[i]
		if on := s.on[k.TurnID]; on == nil || on.ChatID != chatID || k.SnapshotID == nil {
			continue
		}

		switch k.Kind {
		case domain.CheckpointUserTurn:
			user[k.TurnID] = k
		case domain.CheckpointToolBatch:
			batch[k.TurnID] = k
		default: // made without a turn's files
		}
	}

	if len(user)+len(batch) == 0 {
		return moments
	}

	lastResult := map[domain.TurnID]int{}

	for i, m := range moments {
		if p, err := parse(m.data); err == nil && m.name == domain.EventTurnPatch && p.PatchType == domain.PatchToolResult {
			lastResult[p.TurnID] = i
		}
	}

	out := make([]moment, 0, len(moments)+len(user)+len(batch))
	for i, m := range moments {
		out = append(out, m)

		p, err := parse(m.data)
		if err != nil || p.TurnID == "" {
			continue
		}

		if k := user[p.TurnID]; k != nil && m.name == domain.EventTurnEnd {
			out = append(out, s.checkpointMoment(m, k))

			delete(user, p.TurnID)
		}

		if k := batch[p.TurnID]; k != nil && lastResult[p.TurnID] == i {
			out = append(out, moment{at: m.at, name: replay.Batch, chatID: m.chatID, checkpoint: k, files: *k.SnapshotID})

			delete(batch, p.TurnID)
		}
	}

	return out
}

func (s *source) checkpointMoment(after moment, k *transfer.CheckpointRecord) moment {
	data, _ := json.Marshal(domain.CheckpointCreated{ // strings and numbers always marshal
		ID: k.ID, TurnID: k.TurnID, BranchID: k.BranchID, Sequence: s.on[k.TurnID].Sequence, Kind: k.Kind, Label: k.Label,
	})

	return moment{at: after.at, name: domain.EventCheckpoint, chatID: after.chatID, data: data, checkpoint: k, files: *k.SnapshotID}
}
