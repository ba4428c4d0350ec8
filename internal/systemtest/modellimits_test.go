package systemtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/model"
	"everloop/infra/postgres"
	"everloop/internal/testkit"
)

// TestModelLimits_areSharedAndExpire holds that what one worker has learnt of a model server
// serves the others, and that the server is asked again after a day.
func TestModelLimits_areSharedAndExpire(t *testing.T) {
	t.Parallel()

	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})

	var calls atomic.Int64

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)

		var body struct {
			Options json.RawMessage `json:"stream_options"`
		}

		if json.NewDecoder(r.Body).Decode(&body) == nil && body.Options != nil {
			refusal(w, http.StatusBadRequest, "", "Unrecognized request argument supplied: stream_options")
			return
		}

		say(w, text("an answer"), finish("stop"))
	}))
	t.Cleanup(server.Close)

	// A client is that of a new process.
	ask := func() int64 {
		calls.Store(0)

		client := model.New(model.Config{BaseURL: server.URL, Limits: db})
		_, err := client.Stream(t.Context(), domain.Prompt{Model: "m"}, nil)
		require.NoError(t, err)

		return calls.Load()
	}

	require.EqualValues(t, 2, ask())
	require.EqualValues(t, 1, ask(), "another process has read it")

	_, err := db.Pool.Exec(t.Context(), `UPDATE model_limits SET learned_at = learned_at - interval '25 hours'`)
	require.NoError(t, err)
	require.EqualValues(t, 2, ask(), "the server is asked again")

	require.NoError(t, db.KeepModelLimits(t.Context(), domain.ModelLimit{Model: "other", Kind: domain.LimitField, Subject: "reasoning"}))

	limits, err := db.AllLimits(t.Context())
	require.NoError(t, err)
	require.Len(t, limits, 2)
}
