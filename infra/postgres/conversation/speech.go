package conversation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/speech"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// SpokenTurn reads a user turn for the chat that waits for its recordings.
func (db *Base) SpokenTurn(
	ctx context.Context,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	entryID domain.TurnID,
) (turn speech.SpokenTurn, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT e.chat_id, e.parts, c.state <> 'running' OR c.stop_requested
		FROM   entries e JOIN chats c ON c.id = $2 AND c.session_id = e.session_id
		WHERE  e.id = $3 AND e.session_id = $1 AND e.role = 'user'`, sessionID, chatID, entryID).
		Scan(&turn.ChatID, &turn.Parts, &turn.Stopped)
	if errors.Is(err, pgx.ErrNoRows) {
		return turn, domain.ErrFenced // deleted with its session
	}

	return turn, pg.Fault("read turn with recordings", err)
}

// RecordTranscription keeps what was said in a recording of a user turn, shows it in that
// turn and counts what the speech model has used. A recording that has its result keeps
// it. When the chat that waits for it has ended or was stopped, only the usage is counted
// and the error is domain.ErrFenced.
func (s *Store) RecordTranscription(ctx context.Context, heard speech.Heard) error {
	var fenced bool

	err := s.Update(ctx, func(tx *pg.Tx) error {
		fenced = false

		if _, err := sessions.Lock(ctx, tx, heard.SessionID, ""); err != nil {
			return err
		}

		var (
			parts  []domain.ContentPart
			blocks []domain.Block
			chatID domain.ChatID
		)

		err := tx.QueryRow(ctx, `
			SELECT e.chat_id, e.parts, e.blocks, c.state <> 'running' OR c.stop_requested
			FROM   entries e JOIN chats c ON c.id = $3 AND c.session_id = e.session_id
			WHERE  e.id = $1 AND e.session_id = $2 AND e.role = 'user' FOR UPDATE OF e`, heard.EntryID, heard.SessionID, heard.ChatID).
			Scan(&chatID, &parts, &blocks, &fenced)
		if err != nil {
			return err
		}

		if heard.Part < 0 || heard.Part >= len(parts) || !parts[heard.Part].Untranscribed() {
			return nil // an earlier attempt has recorded it
		}

		if err := countUsage(ctx, tx, heard.SessionID, heard.ChatID, heard.Model, heard.Usage); err != nil || fenced {
			return err
		}

		part := &parts[heard.Part]
		part.Text = heard.Text
		part.AudioURL = &domain.AudioURL{URL: part.AudioURL.URL, Status: heard.Status}

		if heard.Text != "" {
			if blocks, err = showTranscript(tx, heard, chatID, blocks); err != nil {
				return err
			}
		}

		_, err = tx.Exec(ctx, `UPDATE entries SET parts = $2, blocks = $3 WHERE id = $1`, heard.EntryID, parts, blocks)

		return err
	})
	if err == nil && fenced {
		return domain.ErrFenced
	}

	return pg.Fault("record transcription", err)
}

// showTranscript emits the transcript as a patch of its turn, and gives the blocks as
// clients have them after it.
func showTranscript(tx *pg.Tx, heard speech.Heard, chatID domain.ChatID, blocks []domain.Block) ([]domain.Block, error) {
	patch := speech.TranscriptPatch(heard.EntryID, blocks, heard.Text)

	data, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}

	turn := domain.Turn{TurnID: heard.EntryID, Blocks: blocks}
	if err := domain.FoldTurn(&turn, domain.LoggedEvent{Event: domain.Event{Name: domain.EventTurnPatch, Data: data}}); err != nil {
		return nil, err
	}

	return turn.Blocks, tx.Emit(heard.SessionID, chatID, domain.EventTurnPatch, patch)
}
