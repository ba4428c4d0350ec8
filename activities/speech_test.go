package activities_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/speech"
	"everloop/internal/durable"
)

// spokenTurn is a turn with its recordings, and a speech model that hears their names.
type spokenTurn struct {
	turn     speech.SpokenTurn
	heard    []speech.Heard
	asked    []string
	fault    error // of the speech model
	recorded error // of the store
}

func (s *spokenTurn) SpokenTurn(context.Context, domain.SessionID, domain.ChatID, domain.TurnID) (speech.SpokenTurn, error) {
	return s.turn, nil
}

func (s *spokenTurn) Recording(_ context.Context, object string) (speech.Recording, error) {
	return speech.Recording{Data: []byte(object)}, nil
}

func (s *spokenTurn) RecordTranscription(_ context.Context, heard speech.Heard) error {
	s.heard = append(s.heard, heard)
	return s.recorded
}

func (s *spokenTurn) Transcribe(_ context.Context, rec speech.Recording) (speech.Transcription, error) {
	s.asked = append(s.asked, string(rec.Data))
	return speech.Transcription{Text: "said in " + string(rec.Data)}, s.fault
}

func (s *spokenTurn) run(t *testing.T) (out contract.TranscribeOut, err error) {
	t.Helper()

	var suite testsuite.WorkflowTestSuite

	env := suite.NewTestActivityEnvironment().SetTestTimeout(5 * time.Minute) // of real time
	acts := &activities.Activities{Speech: s, Recordings: s, Stops: noStops{}, Logger: slog.New(slog.DiscardHandler)}
	contract.Transcribe.Handle(env, acts.Transcribe)

	value, err := env.ExecuteActivity(contract.Transcribe.Name, contract.TranscribeIn{SessionID: "s", ChatID: "chat", EntryID: "e"})
	if err == nil {
		require.NoError(t, value.Get(&out))
	}

	return out, err
}

func recordingPart(object string, status domain.AudioStatus) domain.ContentPart {
	return domain.ContentPart{Type: "audio_url", AudioURL: &domain.AudioURL{URL: domain.ObjectScheme + object, Status: status}}
}

func TestTranscribe_whatIsLeft(t *testing.T) {
	t.Parallel()

	turn := &spokenTurn{turn: speech.SpokenTurn{ChatID: "chat", Parts: []domain.ContentPart{
		recordingPart("a", domain.AudioTranscribed), {Type: "text", Text: "typed"}, recordingPart("b", ""), recordingPart("c", ""),
	}}}
	out, err := turn.run(t)
	require.NoError(t, err)
	require.False(t, out.Stopped)
	require.Equal(t, []string{"b", "c"}, turn.asked)
	require.Len(t, turn.heard, 2)
	require.Equal(t, speech.Heard{
		SessionID: "s", ChatID: "chat", EntryID: "e", Part: 3, Status: domain.AudioTranscribed,
		Transcription: speech.Transcription{Text: "said in c"},
	}, turn.heard[1])
}

func TestTranscribe_faults(t *testing.T) {
	t.Parallel()

	one := func(fault error) *spokenTurn {
		return &spokenTurn{fault: fault, turn: speech.SpokenTurn{ChatID: "chat", Parts: []domain.ContentPart{recordingPart("a", "")}}}
	}

	refused := one(&domain.ModelError{Fault: domain.FaultRefused, Status: 400, Message: "noise"})
	_, err := refused.run(t)
	require.Equal(t, speech.CodeRefused, durable.Code(err))
	require.Len(t, refused.heard, 1)
	require.Equal(t, domain.AudioFailed, refused.heard[0].Status)

	// Its attempt was lost before the run had the result.
	again := &spokenTurn{turn: speech.SpokenTurn{ChatID: "chat", Parts: []domain.ContentPart{recordingPart("a", domain.AudioFailed)}}}
	_, err = again.run(t)
	require.Equal(t, speech.CodeRefused, durable.Code(err))
	require.Empty(t, again.asked)

	// The turn of an earlier chat, which failed for it, does not fail this one.
	again.turn.ChatID = "earlier"
	_, err = again.run(t)
	require.NoError(t, err)

	for _, fault := range []error{
		&domain.ModelError{Fault: domain.FaultTransient, Status: 503, Message: "away"},
		&domain.ModelError{Fault: domain.FaultRefused, Status: 401, Message: "who are you"},
	} {
		away := one(fault)
		_, err = away.run(t)
		require.Equal(t, speech.CodeDown, durable.Code(err))
		require.Empty(t, away.heard, "the next attempt or chat asks again")
	}

	stopped := one(nil)
	stopped.recorded = domain.ErrFenced
	out, err := stopped.run(t)
	require.NoError(t, err)
	require.True(t, out.Stopped)

	stopped = one(nil)
	stopped.turn.Stopped = true
	out, err = stopped.run(t)
	require.NoError(t, err)
	require.True(t, out.Stopped)
	require.Empty(t, stopped.asked)
}
