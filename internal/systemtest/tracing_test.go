package systemtest

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
	"everloop/api/access"
	"everloop/api/session"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/tracing"
	"everloop/internal/testkit"
	"everloop/service/accounts"
)

// newTracedStack returns a stack with traces to an endpoint.
func newTracedStack(t *testing.T, endpoint string) (*stack, *tracing.Tracing) {
	t.Helper()
	traces, err := tracing.Open(t.Context(), tracing.Config{
		Endpoint: endpoint, Logger: slog.New(slog.DiscardHandler), CloseWithin: time.Minute,
	})
	require.NoError(t, err)
	s := newStackOn(t, func(mock http.Handler) http.Handler { return mock }, testkit.Events(t), traces.Statements(), traces)

	return s, traces
}

// edge serves REST over the stack, and gives its address with a key of its caller.
func (s *stack) edge(traces *tracing.Tracing) (url, key string) {
	s.t.Helper()
	authenticator := auth.New(accounts.New(s.journal.DB), auth.Options{})
	s.t.Cleanup(authenticator.Close)
	app := api.New(
		api.Config{
			Auth: authenticator, Idempotency: accounts.New(s.journal.DB), Logger: slog.New(slog.DiscardHandler), Tracer: traces.Requests(),
		},
		api.Areas{
			Session: session.API{
				Sessions: access.Sessions{Store: s.journal.SessionStore()},
				Messages: s.journal,
				Chats:    s.chats,
			},
		},
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)

	served := make(chan error, 1)
	go func() { served <- app.Listener(listener) }()

	s.t.Cleanup(func() {
		require.NoError(s.t, app.ShutdownWithTimeout(time.Minute))
		require.NoError(s.t, <-served)
	})
	made, key, hash := auth.NewKey(s.caller.User.ID, "edge")
	_, err = accounts.New(s.journal.DB).CreateKey(s.t.Context(), made, hash[:])
	require.NoError(s.t, err)

	return "http://" + listener.Addr().String(), key
}

// post sends a message over REST and gives its chat.
func (s *stack) post(url, key string, session domain.SessionID, message string, header http.Header) (chatID domain.ChatID) {
	s.t.Helper()

	body, err := json.Marshal(obj{"message": message})
	require.NoError(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url+"/api/sessions/"+string(session)+"/chat?note=query-s3cret",
		strings.NewReader(string(body)))
	require.NoError(s.t, err)

	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)

	defer response.Body.Close()

	var accepted struct {
		ChatID domain.ChatID `json:"chat_id"`
	}

	require.Less(s.t, response.StatusCode, 300)
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&accepted))

	return accepted.ChatID
}

// A chat over REST is one trace, from the request through its run to the model
// calls, the tools and the SQL statements, without anything that was said.
func TestChat_isOneTrace(t *testing.T) {
	t.Parallel()

	const traceID, client = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

	collector := testkit.Traces(t)
	s, traces := newTracedStack(t, collector.URL)
	url, key := s.edge(traces)
	session := s.session()
	s.post(url, key, session, "said-s3cret"+script(obj{"steps": []obj{
		{"text": "thought-s3cret", "calls": []obj{bash("echo argument-s3cret; sleep 1"), agent("look", obj{"text": "found-s3cret"})}},
		{"calls": []obj{{"name": "No-s3cret", "arguments": obj{}}}}, // a name that the model has made up
		{"text": "answer-s3cret"},
	}}), http.Header{
		"Traceparent": {"00-" + traceID + "-" + client + "-01"}, "Tracestate": {"vendor=state-s3cret"}, "Baggage": {"user=baggage-s3cret"},
	})
	s.await(session, domain.EventChatEnd, nil)
	s.replay(session, "traced")
	s.worker.Stop()
	traces.Close()

	spans := map[string]testkit.Span{}

	for _, span := range collector.Spans() {
		require.Equal(t, traceID, span.Trace(), span.Name)
		spans[span.ID()] = span
	}

	nameOf := func(span testkit.Span) string {
		if model := span.Attributes["gen_ai.request.model"]; model != "" {
			require.Equal(t, "chat "+model, span.Name)
			return "chat"
		}

		return span.Name
	}
	path := func(span testkit.Span) (names []string) {
		for ; span.Parent() != client; span = spans[span.Parent()] {
			require.Contains(t, spans, span.Parent(), "%s hangs below a span that did not come", span.Name)
			names = append(names, nameOf(span))
		}

		return append(names, nameOf(span))
	}

	const root = " < StartWorkflow:Chat < POST /api/sessions/{session_id}/chat"

	found := map[string]testkit.Span{}

	var ends []string // of the chat's model calls

	for _, span := range spans {
		at := strings.Join(path(span), " < ")

		found[at] = span
		if at == "chat < RunActivity:model.call"+root {
			ends = append(ends, span.Attributes["gen_ai.response.finish_reasons"])
		}
	}

	require.Contains(t, found, "chat < RunActivity:model.call"+root)
	require.Contains(t, found, "execute_tool Bash < RunActivity:model.call"+root)
	require.Contains(t, found, "chat < RunActivity:model.call < StartChildWorkflow:Fork"+root)
	require.Contains(t, found, "INSERT < batch start < POST /api/sessions/{session_id}/chat")
	require.Contains(t, found, "SELECT < RunActivity:chat.begin"+root)
	require.Contains(t, found, "SELECT < batch start < RunActivity:model.call"+root)
	require.Contains(t, found, "WITH < execute_tool Bash < RunActivity:model.call"+root)

	call := found["chat < RunActivity:model.call"+root].Attributes
	require.NotEmpty(t, call["gen_ai.request.model"])
	require.NotEqual(t, "0", call["gen_ai.usage.input_tokens"])
	require.NotEqual(t, "0", call["gen_ai.usage.output_tokens"])
	require.Equal(t, "chat", call["gen_ai.operation.name"])
	require.Equal(t, "openai", call["gen_ai.provider.name"])
	require.NotEmpty(t, call["gen_ai.response.model"])
	require.Contains(t, ends, "tool_calls;")
	require.Contains(t, ends, "stop;")
	require.EqualValues(t, session, call["everloop.session_id"])
	require.NotEmpty(t, call["everloop.step"])
	require.Equal(t, "done", found["execute_tool Bash < RunActivity:model.call"+root].Attributes["everloop.tool.status"])
	request := found["POST /api/sessions/{session_id}/chat"].Attributes
	require.Equal(t, "/api/sessions/{session_id}/chat", request["http.route"])

	modelCallsAreMeasured(t, collector)
	require.False(t, collector.Holds("s3cret"), "something that was said is in a trace or a metric")
	require.False(t, collector.Holds(key), "the API key is in a trace")
	require.False(t, collector.Holds(s.caller.User.ID), "a parameter of a statement is in a trace")
}

// modelCallsAreMeasured holds the metrics of model calls to their spans.
func modelCallsAreMeasured(t *testing.T, collector *testkit.Collector) {
	t.Helper()

	var calls, tokens uint64

	for _, span := range collector.Spans() {
		if span.Attributes["gen_ai.operation.name"] != "chat" {
			continue
		}

		calls++

		for _, kind := range []string{"input", "output"} {
			used, err := strconv.ParseUint(span.Attributes["gen_ai.usage."+kind+"_tokens"], 10, 64)
			require.NoError(t, err)

			tokens += used
		}
	}

	var measured uint64

	for _, point := range collector.Points("gen_ai.client.operation.duration") {
		measured += point.Count
		require.Equal(t, "s", point.Unit)
		require.Positive(t, point.GetSum())
		require.Equal(t, []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
			point.ExplicitBounds)
		require.Equal(t, []string{"chat", "openai"},
			[]string{point.Attributes["gen_ai.operation.name"], point.Attributes["gen_ai.provider.name"]})
		require.NotEmpty(t, point.Attributes["gen_ai.request.model"])
		require.NotEmpty(t, point.Attributes["gen_ai.response.model"])
		require.NotContains(t, point.Attributes, "error.type")
	}

	require.Equal(t, calls, measured)

	var sum float64

	kinds := map[string]bool{}

	for _, point := range collector.Points("gen_ai.client.token.usage") {
		sum += point.GetSum()
		kinds[point.Attributes["gen_ai.token.type"]] = true

		require.Equal(t, "{token}", point.Unit)
		require.Equal(t, []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864},
			point.ExplicitBounds)
		require.Equal(t, "chat", point.Attributes["gen_ai.operation.name"])
	}

	require.InDelta(t, float64(tokens), sum, 0.1)
	require.Equal(t, map[string]bool{"input": true, "output": true}, kinds)
}

// A collector that takes requests and never answers holds up no chat.
func TestChat_collectorHangs(t *testing.T) {
	t.Parallel()

	free := make(chan struct{})
	asked := make(chan struct{}, 1000)
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}

		<-free
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(free) })
	s, traces := newTracedStack(t, hanging.URL)

	url, key := s.edge(traces)
	for range 2 {
		session := s.session()
		chat := s.post(url, key, session, script(obj{"loop": obj{"n": 5, "call": bash("true")}, "closing": "done"}), http.Header{})
		require.Equal(t, "completed", s.awaitEnd(session, chat)["status"])

		select {
		case <-asked: // the second chat runs while it hangs
		case <-t.Context().Done():
		}

		asked <- struct{}{}
	}
}

// Without a setting there are no traces.
func TestBackgroundWork_hasNoTraces(t *testing.T) {
	t.Parallel()
	collector := testkit.Traces(t)
	s, traces := newTracedStack(t, collector.URL)
	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{{"text": "done"}}})) // below no request
	s.awaitEnd(session, ack.ChatID)
	require.NoError(t, s.reconciler.WakeSessions(t.Context()))
	require.NoError(t, s.reconciler.CheckRuns(t.Context()))
	s.worker.Stop()
	traces.Close()
	require.Empty(t, collector.Spans())
}
