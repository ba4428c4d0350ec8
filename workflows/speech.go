package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// maxTranscriptions bounds how often one model call asks for transcriptions: each time
// for other turns.
const maxTranscriptions = 64

// transcribe has the recordings of user turns transcribed, one turn after the other. Tries
// counts how often the model call has asked for it.
func (l *loop) transcribe(ctx workflow.Context, turns []domain.TurnID, tries int) (stopped bool, err error) {
	if tries > maxTranscriptions {
		return false, durable.Final(domain.CodeInternal, "recordings were transcribed, and the model call asks for them again")
	}

	for i, turn := range turns {
		if l.stopped {
			return true, nil
		}

		out, err := contract.Transcribe.Run(ctx, contract.TranscribeIn{
			SessionID: l.sessionID, ChatID: l.chatID, TaskID: l.taskID, EntryID: turn,
		}, fmt.Sprintf("Transcribe message %d of %d", i+1, len(turns)))
		if err != nil || out.Stopped {
			return out.Stopped, err
		}
	}

	return false, nil
}
