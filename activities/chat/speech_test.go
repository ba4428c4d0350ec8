package chat

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/speech"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/durable"
	"everloop/internal/testkit"
)

// spoken is a running chat whose user turn has recordings, and a speech model that returns
// what the recordings contain.
type spoken struct {
	t       *testing.T
	store   *postgres.Store
	user    domain.User
	session domain.SessionID
	chat    domain.ChatID
	entry   domain.TurnID
	objects *objects.Store

	status int      // of the speech model's answers; 0: it transcribes
	asked  []string // contents of the recordings that it was sent
	steps  *Transcriber
}

func newSpoken(t *testing.T) *spoken {
	t.Helper()

	db := pgtest.Open(t)
	s := &spoken{t: t}
	s.store, s.user, s.session, s.chat = pgtest.Running(t, db)
	require.NoError(t, db.Pool.QueryRow(t.Context(),
		`SELECT id FROM entries WHERE session_id = $1 AND role = 'user'`, s.session).Scan(&s.entry))

	bucket := testkit.Objects(t)

	var err error
	s.objects, err = objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	server := httptest.NewServer(http.HandlerFunc(s.transcribe))
	t.Cleanup(server.Close)

	s.steps = &Transcriber{
		Speech: model.NewSpeech(model.SpeechConfig{
			Client: model.New(model.Config{BaseURL: server.URL}), Model: "ears", Timeout: time.Minute, MaxBytes: 1 << 20, MaxConcurrent: 1,
		}),
		Store: s.store.ChatStore(), Objects: s.objects, Logger: slog.New(slog.DiscardHandler),
	}

	return s
}

func (s *spoken) transcribe(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	data, _ := io.ReadAll(file)
	s.asked = append(s.asked, string(data[12:]))

	if s.status != 0 {
		http.Error(w, `{"error":{"message":"noise"}}`, s.status)
		return
	}

	fmt.Fprintf(w, `{"text":%q}`, "said in "+string(data[12:]))
}

// recording returns a part whose recording has this text behind the header of its format.
func (s *spoken) recording(text string, status domain.AudioStatus) domain.ContentPart {
	s.t.Helper()

	key := "images/" + string(s.session) + "/" + text
	require.NoError(s.t, s.objects.PutImage(s.t.Context(), s.session, text, "audio/wav", []byte("RIFF....WAVE"+text)))

	return domain.ContentPart{Type: "audio_url", AudioURL: &domain.AudioURL{URL: domain.ObjectScheme + key, Status: status}}
}

func (s *spoken) parts(parts ...domain.ContentPart) {
	s.t.Helper()

	_, err := s.store.Pool.Exec(s.t.Context(), `UPDATE entries SET parts = $2 WHERE id = $1`, s.entry, parts)
	require.NoError(s.t, err)
}

func (s *spoken) stored() (parts []domain.ContentPart) {
	s.t.Helper()
	require.NoError(s.t, s.store.Pool.QueryRow(s.t.Context(), `SELECT parts FROM entries WHERE id = $1`, s.entry).Scan(&parts))

	return parts
}

func (s *spoken) run() (out contract.TranscribeOut, err error) {
	s.t.Helper()

	var suite testsuite.WorkflowTestSuite

	env := suite.NewTestActivityEnvironment().SetTestTimeout(5 * time.Minute) // of real time
	contract.Transcribe.Handle(env, s.steps.Transcribe)

	value, err := env.ExecuteActivity(contract.Transcribe.Name, contract.TranscribeIn{
		SessionID: s.session, ChatID: s.chat, EntryID: s.entry,
	})
	if err == nil {
		require.NoError(s.t, value.Get(&out))
	}

	return out, err
}

func TestTranscriber_Transcribe_remainingRecordings(t *testing.T) {
	t.Parallel()

	s := newSpoken(t)
	s.parts(s.recording("a", domain.AudioTranscribed), domain.ContentPart{Type: "text", Text: "typed"},
		s.recording("b", ""), s.recording("c", ""))

	out, err := s.run()
	require.NoError(t, err)
	require.False(t, out.Stopped)
	require.Equal(t, []string{"b", "c"}, s.asked)

	parts := s.stored()
	require.Equal(t, "said in c", parts[3].Text)
	require.Equal(t, domain.AudioTranscribed, parts[3].AudioURL.Status)
}

func TestTranscriber_Transcribe_refusedRecording(t *testing.T) {
	t.Parallel()

	s := newSpoken(t)
	s.parts(s.recording("a", ""))
	s.status = http.StatusBadRequest

	_, err := s.run()
	require.Equal(t, speech.CodeRefused, durable.Code(err))
	require.Equal(t, domain.AudioFailed, s.stored()[0].AudioURL.Status)

	// An attempt that was lost before its run received the result.
	_, err = s.run()
	require.Equal(t, speech.CodeRefused, durable.Code(err))
	require.Len(t, s.asked, 1)
}

func TestTranscriber_Transcribe_unavailableModel(t *testing.T) {
	t.Parallel()

	s := newSpoken(t)
	s.parts(s.recording("a", ""))

	for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
		s.status = status
		_, err := s.run()
		require.Equal(t, speech.CodeDown, durable.Code(err))
		require.True(t, s.stored()[0].Untranscribed(), "the next attempt or chat asks again")
	}
}

func TestTranscriber_Transcribe_stoppedChat(t *testing.T) {
	t.Parallel()

	s := newSpoken(t)
	s.parts(s.recording("a", ""))

	_, err := s.store.RequestStop(t.Context(), s.user.ID, s.session, false)
	require.NoError(t, err)

	out, err := s.run()
	require.NoError(t, err)
	require.True(t, out.Stopped)
	require.Empty(t, s.asked)
}
