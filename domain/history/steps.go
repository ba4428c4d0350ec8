package history

import "everloop/domain"

// ModelCall is a model call of the main loop that a branch shows.
type ModelCall struct {
	ChatID   domain.ChatID
	Step     int
	Sequence int64
}

// AfterStep finds a step of a branch, counted from 1, by the branch's model calls in order. It
// returns the sequence of the step's last call, after which all other entries of the step
// follow. For step 0 it returns the sequence of the first call and before = true: the position
// after the message that started the first step. A call that failed and was retried is one step
// with two turns.
func AfterStep(calls []ModelCall, step int) (sequence int64, before bool, err error) {
	if step == 0 && len(calls) > 0 {
		return calls[0].Sequence, true, nil
	}

	count := 0

	for i, c := range calls {
		if i == 0 || c.ChatID != calls[i-1].ChatID || c.Step != calls[i-1].Step {
			count++
		}

		if count == step {
			sequence = c.Sequence
		}
	}

	if count == 0 {
		return 0, false, domain.Invalidf("body.whatif.from_step", "is not a step: the active branch has none yet")
	}

	if step < 0 || step > count {
		return 0, false, domain.Invalidf("body.whatif.from_step", "must be between 0 and %d, the steps of the active branch", count)
	}

	return sequence, false, nil
}
