package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/speech"
	"everloop/infra/postgres/pgtest"
)

// A transcript is kept with its turn once, counted, and emitted as a patch that gives the
// blocks that are stored.
func TestStore_RecordTranscription(t *testing.T) {
	store, _, session := pgtest.Session(t)
	ctx := t.Context()
	name := func(c string) string {
		return domain.ObjectScheme + "images/" + string(session.ID) + "/" + c
	}
	sent, err := store.Enqueue(ctx, session.OwnerID, domain.Send{
		SessionID: session.ID, ClientMessageID: "m1", Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
		Message: []domain.ContentPart{
			{Type: "audio_url", AudioURL: &domain.AudioURL{URL: name("a")}},
			{Type: "text", Text: "typed"},
			{Type: "audio_url", AudioURL: &domain.AudioURL{URL: name("b")}},
		},
	})
	require.NoError(t, err)

	started, err := store.BeginChat(ctx, contract.BeginChatIn{SessionID: session.ID, RunID: "r1"})
	require.NoError(t, err)

	heard := speech.Heard{
		SessionID: session.ID, ChatID: started.ChatID, EntryID: sent.Ack.TurnID, Status: domain.AudioTranscribed,
		Transcription: speech.Transcription{Text: "spoken", Model: "ears", Usage: domain.Usage{InputTokens: 7, OutputTokens: 2}},
	}
	require.NoError(t, store.RecordTranscription(ctx, heard))
	require.NoError(t, store.RecordTranscription(ctx, heard), "an attempt whose answer was lost")

	second := heard
	second.Part, second.Status, second.Transcription = 2, domain.AudioFailed, speech.Transcription{Model: "ears"}
	require.NoError(t, store.RecordTranscription(ctx, second))

	turn, err := store.SpokenTurn(ctx, session.ID, started.ChatID, sent.Ack.TurnID)
	require.NoError(t, err)
	require.False(t, turn.Stopped)
	require.Equal(t, started.ChatID, turn.ChatID)
	require.Equal(t, []domain.ContentPart{
		{Type: "audio_url", Text: "spoken", AudioURL: &domain.AudioURL{URL: name("a"), Status: domain.AudioTranscribed}},
		{Type: "text", Text: "typed"},
		{Type: "audio_url", AudioURL: &domain.AudioURL{URL: name("b"), Status: domain.AudioFailed}},
	}, turn.Parts)

	var (
		blocks []domain.Block
		tokens int64
	)

	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT e.blocks, s.used_tokens FROM entries e JOIN sessions s ON s.id = e.session_id
		WHERE e.id = $1`, sent.Ack.TurnID).Scan(&blocks, &tokens))
	require.EqualValues(t, 9, tokens, "counted once")

	var kinds []domain.BlockType
	for _, b := range blocks {
		kinds = append(kinds, b.Type)
	}

	require.Equal(t, []domain.BlockType{domain.BlockAudio, domain.BlockText, domain.BlockAudio, domain.BlockText}, kinds)
	require.Equal(t, "spoken", blocks[3].Content)

	_, err = store.RequestStop(ctx, session.OwnerID, session.ID, false)
	require.NoError(t, err)

	turn, err = store.SpokenTurn(ctx, session.ID, started.ChatID, sent.Ack.TurnID)
	require.NoError(t, err)
	require.True(t, turn.Stopped)

	_, err = store.SpokenTurn(ctx, "another session", started.ChatID, sent.Ack.TurnID)
	require.ErrorIs(t, err, domain.ErrFenced)
}
