package mock_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/internal/hosts"
)

func (b *bed) log() []mock.Request {
	b.t.Helper()

	var out struct {
		Items []mock.Request
		Total int
	}
	require.Equal(b.t, 200, b.do("GET", "/control/requests", &out))
	require.Len(b.t, out.Items, out.Total)

	return out.Items
}

func TestRequestLog(t *testing.T) {
	b := start(t, mock.Config{KeepRequests: true})
	b.must(prompt(specs("Bash"), script(`{"steps":[{"text":"x"}]}`)))
	_, _ = b.fault(`{"steps":[{"status":503}]}`)
	_, _ = b.fault(`{"steps":[{"status":503}]}`)
	_, _ = b.fault(`{"steps":[{"text":"x","cut_after":1}]}`)
	b.post(`{"broken`)

	log := b.log()
	require.Len(t, log, 5)

	var outcomes []string
	for _, r := range log {
		outcomes = append(outcomes, r.Outcome)
		require.NotContains(t, string(r.Body), "sk-mine")
	}

	require.Equal(t, []string{"completed", "status 503", "status 503", "cut", "status 400"}, outcomes)
	require.Equal(t, mock.DemoModel, log[0].Model)
	require.True(t, log[0].Stream)
	require.Contains(t, string(log[0].Body), `"name":"Bash"`)
	require.Equal(t, log[1].Key, log[2].Key, "the same question")
	require.NotEqual(t, log[0].Key, log[1].Key)
	require.Empty(t, log[4].Body, "a body that is not JSON is not logged")

	var last struct{ Items []mock.Request }
	require.Equal(t, 200, b.do("GET", "/control/requests?limit=1", &last))
	require.Len(t, last.Items, 1)
	require.Equal(t, log[4].ID, last.Items[0].ID)

	require.Equal(t, 204, b.do("DELETE", "/control/requests", nil))
	require.Empty(t, b.log())
}

func TestRequestLogIsBounded(t *testing.T) {
	b := start(t, mock.Config{KeepRequests: true})
	for range 210 {
		b.post(`{}`)
	}

	log := b.log()
	require.Len(t, log, 200)
	require.EqualValues(t, 11, log[0].ID)

	huge := `{"model":"everloop-demo","messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<20) + `"}]}`
	b.post(huge)
	log = b.log()
	require.Empty(t, log[199].Body)
	require.Equal(t, len(huge), log[199].Bytes)
}

func TestControlIsForThisMachine(t *testing.T) {
	for open, want := range map[bool]int{false: http.StatusForbidden, true: http.StatusOK} {
		handler := mock.New(mock.Config{OpenControl: open, KeepRequests: true}).Handler()
		r := httptest.NewRequest("GET", "http://127.0.0.1/control/requests", nil)
		r.RemoteAddr = "192.0.2.7:1234"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	addr := listener.Addr().String()

	ctx, cancel := context.WithCancel(t.Context())

	ended := make(chan error, 1)
	go func() { ended <- mock.New(mock.Config{}).Serve(ctx, listener) }()

	body := `{"model":"everloop-demo","stream":true,"messages":[{"role":"user","content":"[[script]]{\"steps\":[{\"text\":\"a ` +
		`b\",\"hold\":true}]}"}]}`
	res, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)

	defer res.Body.Close()

	cancel()

	_, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a held stream is cut at the end, not finished")

	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it did not end")
	}
}

func TestRequestLog_offUnlessAskedFor(t *testing.T) {
	b := start(t, mock.Config{})
	b.must(prompt(specs("Bash"), script(`{"steps":[{"text":"x"}]}`)))

	var answer struct{ Error struct{ Code string } }
	require.Equal(t, http.StatusNotFound, b.do("GET", "/control/requests", &answer))
	require.Equal(t, "request_log_off", answer.Error.Code)
}

func TestHandler_rejectsReboundHost(t *testing.T) {
	handler := mock.New(mock.Config{KeepRequests: true, Hosts: hosts.List{"mock"}}).Handler()

	for host, want := range map[string]int{
		"127.0.0.1:30023": http.StatusOK, "localhost": http.StatusOK, "mock:30023": http.StatusOK,
		"evil.example": http.StatusForbidden, "evil.example:30023": http.StatusForbidden,
	} {
		r := httptest.NewRequest("GET", "/control/requests", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1234", host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}
