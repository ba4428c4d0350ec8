package replay

import (
	"encoding/json"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/service/recordings"
)

// played is what stands open behind a part of a script that was played.
type played struct {
	start   replay.Step                     // the chat:start of the last chat
	running bool                            // that chat has not ended
	turns   map[domain.TurnID][]replay.Step // of open turns, what was played
	paused  map[domain.TurnID]bool          // turns that wait for an answer
	calls   map[string]bool                 // without a result
	asked   map[string]bool                 // open questions
	order   []string                        // of the open turns
}

func (p *played) reset() {
	p.running = false
	p.turns, p.paused = map[domain.TurnID][]replay.Step{}, map[domain.TurnID]bool{}
	p.calls, p.asked, p.order = map[string]bool{}, map[string]bool{}, nil
}

// state plays steps in mind.
func state(steps []replay.Step) (*played, error) {
	p := &played{}
	p.reset()

	for _, step := range steps {
		e, err := parse(step.Data)
		if err != nil {
			return nil, err
		}

		switch step.Name {
		case replay.Cut:
			p.reset()
		case domain.EventChatStart:
			p.start, p.running = step, true
		case domain.EventChatEnd:
			p.running = false
		case domain.EventTurnStart:
			p.turns[e.TurnID] = nil
			p.order = append(p.order, string(e.TurnID))
		case domain.EventTurnEnd:
			delete(p.turns, e.TurnID)
			delete(p.paused, e.TurnID)

			if domain.TurnStatus(e.Status) == domain.TurnPaused {
				p.paused[e.TurnID] = true
			}
		case domain.EventTurnPatch:
			p.call(e)
		case domain.EventQuestionResolved:
			delete(p.asked, e.QuestionID)
		}

		if _, open := p.turns[e.TurnID]; open {
			p.turns[e.TurnID] = append(p.turns[e.TurnID], step)
		}
	}

	return p, nil
}

func (p *played) call(e event) {
	switch {
	case e.PatchType == domain.PatchAddToolCall && e.ToolCall != nil:
		p.calls[e.ToolCall.ID] = true
		if ref := e.ToolCall.PendingQuestionRef; ref != nil {
			p.asked[ref.QuestionID] = true
		}
	case e.PatchType == domain.PatchToolResult:
		delete(p.calls, e.ToolCallID)
	}
}

// resume makes the script that continues behind an interruption: what was played
// stays, what was open then was closed, and the rest is played in a chat of its
// own. A turn that was cut is emitted again; results for calls that were cancelled
// are left out. Position is where playing continues.
func resume(script []replay.Step, at int) (steps []replay.Step, position int, err error) {
	at = min(at, len(script))

	was, err := state(script[:at])
	if err != nil {
		return nil, 0, err
	}

	names := recordings.Names{IDs: map[string]string{}}

	dead := map[string]bool{} // turns and calls that were closed permanently
	for id := range was.paused {
		dead[string(id)] = true
	}

	for id := range was.calls {
		dead[id] = true
	}

	for id := range was.asked {
		dead[id] = true
	}

	steps = append(steps, script[:at]...)
	steps = append(steps, replay.Step{Name: replay.Cut, Data: json.RawMessage("{}")})
	position = len(steps)

	cut := was.running || len(was.paused) > 0
	if cut {
		names.IDs[string(was.start.ChatID)] = domain.NewID()
	}

	var again []replay.Step
	if was.running {
		again = append(again, was.start)
	}

	for _, id := range was.order {
		if before, open := was.turns[domain.TurnID(id)]; open {
			names.IDs[id] = domain.NewID()

			again = append(again, before...)
		}
	}

	for _, step := range again { // the calls of a turn that is emitted again are new ones
		if e, err := parse(step.Data); err == nil && e.ToolCall != nil {
			names.IDs[e.ToolCall.ID] = domain.NewToolCallID()
			delete(dead, e.ToolCall.ID)

			if ref := e.ToolCall.PendingQuestionRef; ref != nil {
				names.IDs[ref.QuestionID] = domain.NewID()
				delete(dead, ref.QuestionID)
			}
		}
	}

	fresh := cut && !was.running // the chat has yet to start for the first time

	for i, step := range append(again, script[at:]...) {
		e, err := parse(step.Data)
		if err != nil {
			return nil, 0, err
		}

		if i < len(again) {
			step.Gap = 0
		}

		if dead[string(e.TurnID)] && step.Name != domain.EventTurnStart || dead[e.ToolCallID] || dead[e.QuestionID] {
			continue
		}

		if step.Name == domain.EventChatStart && (i == 0 && was.running || fresh && step.ChatID == was.start.ChatID) {
			if step.Data, err = firstStart(step.Data); err != nil {
				return nil, 0, err
			}

			fresh = false
		}

		if step, err = rename(step, names); err != nil {
			return nil, 0, err
		}

		steps = append(steps, step)
	}

	return steps, position, nil
}

func firstStart(data json.RawMessage) (json.RawMessage, error) {
	return asReplay(data, domain.TriggerReplay)
}

func rename(step replay.Step, names recordings.Names) (replay.Step, error) {
	if len(names.IDs) == 0 {
		return step, nil
	}

	if to, known := names.IDs[string(step.ChatID)]; known {
		step.ChatID = domain.ChatID(to)
	}

	if step.Checkpoint != nil {
		k := *step.Checkpoint
		if to, known := names.IDs[string(k.TurnID)]; known {
			k.TurnID = domain.TurnID(to)
		}

		step.Checkpoint = &k
	}

	var err error

	step.Data, err = names.Data(step.Data)

	return step, err
}
