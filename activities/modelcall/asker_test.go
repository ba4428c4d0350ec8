package modelcall

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/model"
	"everloop/infra/postgres/pgtest"
)

// askedServer is a model server that keeps the bodies of its chat completions.
type askedServer struct {
	status int
	body   string
	asked  []map[string]any
}

func (s *askedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")

	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}

	var body map[string]any

	_ = json.NewDecoder(r.Body).Decode(&body)
	s.asked = append(s.asked, body)

	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

func (s *askedServer) answers(text string) {
	s.status = http.StatusOK
	s.body = `{"model":"m","choices":[{"message":{"role":"assistant","content":` + text + `},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":7,"completion_tokens":1}}`
}

func newAsker(t *testing.T, server *askedServer) (*Asker, tools.ModelQuery, func() int64) {
	t.Helper()

	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)

	db := pgtest.Open(t)
	_, _, sessionID, chatID := pgtest.Running(t, db)
	asker := &Asker{
		Models: model.New(model.Config{BaseURL: listening.URL}), Accounts: db.Conversation(), Logger: slog.New(slog.DiscardHandler),
	}
	used := func() (tokens int64) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT used_tokens FROM sessions WHERE id = $1`, sessionID).Scan(&tokens))
		return tokens
	}

	return asker, tools.ModelQuery{SessionID: sessionID, ChatID: chatID, System: "You read.", Text: "What?"}, used
}

func TestAsker_Ask_callsModelOfChatWithoutTools(t *testing.T) {
	t.Parallel()

	server := &askedServer{}
	asker, query, used := newAsker(t, server)

	server.answers(`"42"`)
	answer, err := asker.Ask(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, "42", answer)
	require.EqualValues(t, 8, used())

	request := server.asked[0]
	require.Equal(t, "m", request["model"])
	require.NotContains(t, request, "tools")
	require.Len(t, request["messages"], 2)

	server.answers(`" "`)
	_, err = asker.Ask(t.Context(), query)
	require.ErrorContains(t, err, "no answer")
}

func TestAsker_Ask_faults(t *testing.T) {
	t.Parallel()

	server := &askedServer{}
	asker, query, _ := newAsker(t, server)

	for body, c := range map[string]struct {
		status int
		words  string
	}{
		`{"error":{"message":"http://10.0.0.1 secret","code":"context_length_exceeded"}}`: {400, "too long for the model"},
		`{"error":{"message":"http://10.0.0.1 secret; slow down"}}`:                       {429, "no more calls at the moment"},
		`{"error":{"message":"http://10.0.0.1 secret; down"}}`:                            {503, "not available at the moment"},
		`{"error":{"message":"http://10.0.0.1 secret; no"}}`:                              {400, "refused the question"},
	} {
		server.status, server.body = c.status, body
		_, err := asker.Ask(t.Context(), query)
		require.ErrorContains(t, err, c.words)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, domain.Conflict, domain.AsError(err).Kind, "a tool can pass it on")
	}
}
