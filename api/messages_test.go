package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{}`) + "/messages"
	require.Equal(t, "[]", w.do("GET", path, w.ann, "").text)
	require.Nil(t, w.turns.asked.after)
	require.Zero(t, w.turns.asked.limit)

	w.turns.count = 3
	r := w.do("GET", path+"?after_sequence=0&limit=3", w.ann, "")
	require.Equal(t, "application/json", r.header.Get("Content-Type"))

	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.text), &list))
	require.Len(t, list, 3)
	require.Equal(t, []any{}, list[0]["tool_calls"], "a list is never null")
	require.EqualValues(t, 0, *w.turns.asked.after)
	require.Equal(t, 3, w.turns.asked.limit)

	for query, after := range map[string]*int64{
		"?newest=true&limit=2": new(int64), "?newest=true&limit=3": nil, "?newest=true": nil,
		"?newest=true&limit=9&after_sequence=0": new(int64),
	} {
		require.Equal(t, 200, w.do("GET", path+query, w.ann, "").status, query)
		require.Equal(t, after, w.turns.asked.after, query)
		require.Zero(t, w.turns.asked.limit, query)
	}

	w.turns.failAt = 2
	w.do("GET", path, w.ann, "").code(500, "internal_error")
}

// TestLongHistoryIsStreamed shows that the first turns are with the client
// while the later ones have not been read.
func TestLongHistoryIsStreamed(t *testing.T) {
	t.Parallel()

	const count = 10_000

	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{}`) + "/messages"
	w.turns.count, w.turns.gateAt, w.turns.gate = count, count/2, make(chan struct{})
	response, err := http.DefaultTransport.RoundTrip(w.request("GET", path, w.ann, ""))
	require.NoError(t, err)

	defer response.Body.Close()

	require.Equal(t, 200, response.StatusCode)
	dec := json.NewDecoder(response.Body)
	_, err = dec.Token()
	require.NoError(t, err)

	read := 0

	for dec.More() {
		var turn domain.Turn
		require.NoError(t, dec.Decode(&turn))
		require.EqualValues(t, read, turn.Sequence)

		if read++; read == 100 {
			close(w.turns.gate)
		}
	}

	_, err = dec.Token()
	require.NoError(t, err)
	require.Equal(t, count, read)
	require.Equal(t, 200, w.do("HEAD", path, w.ann, "").status)
}

// TestABrokenListIsNotTakenForAWhole: after the status is out, only the cut
// connection can report.
func TestABrokenListIsNotTakenForAWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.turns.count, w.turns.failAt = 10_000, 9_000
	response, err := http.DefaultTransport.RoundTrip(w.request("GET", "/api/sessions/"+w.session(`{}`)+"/messages", w.ann, ""))
	require.NoError(t, err)

	defer response.Body.Close()

	_, err = io.ReadAll(response.Body)
	require.Error(t, err)
}

// TestAClientThatLeavesEndsTheReading: what a client no longer reads is not read
// from the database either.
func TestAClientThatLeavesEndsTheReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.turns.count = 1_000_000
	w.turns.ended = make(chan int, 1)
	response, err := http.DefaultTransport.RoundTrip(w.request("GET", "/api/sessions/"+w.session(`{}`)+"/messages", w.ann, ""))
	require.NoError(t, err)
	_, err = io.ReadFull(response.Body, make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	// The buffers of both ends of the connection hold a few thousand turns.
	require.Less(t, <-w.turns.ended, w.turns.count/2)
}
