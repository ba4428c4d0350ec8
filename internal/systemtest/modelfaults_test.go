package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/model"
	"everloop/service/chat"
)

// request is one model call as a faulty server sees it.
type request struct {
	n        int      // from 1, of the calls to its model
	tools    bool     // it is a call of the agent, not a summary
	offered  []string // the names of its tools
	messages []any
	left     <-chan struct{} // closed when the client has gone
}

// faultCase is one way in which a model server can fail, and how a chat ends
// with it.
type faultCase struct {
	answer func(w http.ResponseWriter, r request)
	setup  domain.SessionSetup
	schema string // of a headless chat
	steps  int    // of a conversation before, with a sound server

	reason string
	code   string
	most   int // model calls
	least  int // default: 1
}

// faultServer answers each model by the case of its name.
type faultServer struct {
	*httptest.Server
	cases map[string]faultCase

	mu    sync.Mutex
	calls map[string]int
	sound map[string]int // calls to answer well first
}

func newFaultServer(t *testing.T, cases map[string]faultCase) *faultServer {
	t.Helper()

	s := &faultServer{cases: cases, calls: map[string]int{}, sound: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)

	return s
}

func (s *faultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.WriteHeader(http.StatusServiceUnavailable) // names are believed then
		return
	}

	var body struct {
		Model    string
		Tools    []struct{ Function struct{ Name string } }
		Messages []any
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}

	s.mu.Lock()
	if s.sound[body.Model] > 0 {
		s.sound[body.Model]--
		s.mu.Unlock()
		say(w, text("answered", strings.Repeat("word ", 50)), finish("stop"))

		return
	}

	s.calls[body.Model]++
	n := s.calls[body.Model]
	s.mu.Unlock()

	offered := make([]string, len(body.Tools))
	for i, tool := range body.Tools {
		offered[i] = tool.Function.Name
	}

	s.cases[body.Model].answer(w, request{
		n: n, tools: len(offered) > 0, offered: offered, messages: body.Messages, left: r.Context().Done(),
	})
}

func (s *faultServer) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.calls[name]
}

// Pieces of a stream.
func delta(v obj) string {
	raw, err := json.Marshal(obj{"choices": []obj{{"index": 0, "delta": v}}})
	if err != nil {
		panic(err)
	}

	return string(raw)
}

func text(words ...string) string { return delta(obj{"content": strings.Join(words, " ")}) }

func toolCall(index int, name, arguments string) string {
	return delta(
		obj{"tool_calls": []obj{{"index": index, "id": fmt.Sprintf("c%d", index), "function": obj{"name": name, "arguments": arguments}}}},
	)
}

func finish(why string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, why)
}

// say streams pieces and ends as it should.
func say(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")

	for _, piece := range pieces {
		_, _ = io.WriteString(w, "data: "+piece+"\n\n")
	}

	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// cut streams pieces and breaks the connection.
func cut(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")

	for _, piece := range pieces {
		_, _ = io.WriteString(w, "data: "+piece+"\n\n")
	}

	_ = http.NewResponseController(w).Flush()

	panic(http.ErrAbortHandler)
}

func whole(w http.ResponseWriter, kind string, status int, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func refuse(status int, code, message string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) { refusal(w, status, code, message) }
}

func refusal(w http.ResponseWriter, status int, code, message string) {
	raw, err := json.Marshal(obj{"error": obj{"code": code, "message": message}})
	if err != nil {
		panic(err)
	}

	whole(w, "application/json", status, string(raw))
}

// Ends that many cases share.
func final(answer func(http.ResponseWriter, request)) faultCase {
	return faultCase{answer: answer, reason: "failed", code: "model_refused", most: 1}
}

func passing(answer func(http.ResponseWriter, request)) faultCase {
	return faultCase{answer: answer, reason: "failed", code: "model_unavailable", least: 2, most: 4}
}

func overflowing(answer func(http.ResponseWriter, request)) faultCase {
	return faultCase{answer: answer, reason: "context_overflow", code: "context_overflow", least: 2, most: 4}
}

// withTools answers the agent's own calls so, and summaries well.
func withTools(answer func(http.ResponseWriter, request)) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, r request) {
		if !r.tools {
			say(w, text("a summary"), finish("stop"))
			return
		}

		answer(w, r)
	}
}

func faultCases() map[string]faultCase {
	cases := map[string]faultCase{}
	for _, status := range []int{
		400, 401, 403, 405, 406, 410, 411, 412, 414, 415,
		417, 418, 421, 422, 423, 424, 426, 428, 431, 451,
	} {
		cases[fmt.Sprintf("status %d", status)] = final(refuse(status, "", "no"))
	}

	for _, status := range []int{408, 409, 425, 429, 500, 501, 502, 503, 504, 505, 507, 508, 520, 524, 529, 599} {
		cases[fmt.Sprintf("status %d", status)] = passing(refuse(status, "", "later"))
	}

	for name, c := range map[string]faultCase{
		"status 204": final(func(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusNoContent) }),
		"status 402": {answer: refuse(402, "", "no"), reason: "failed", code: "model_quota_exhausted", most: 1},
		"status 413": {answer: refuse(413, "", "no"), reason: "context_overflow", code: "context_overflow", most: 2},
		"status 404": {answer: refuse(404, "model_not_found", "no such model"), reason: "failed", code: "unknown_model", most: 1},
		"retry-after beyond the limit": {answer: func(w http.ResponseWriter, _ request) {
			w.Header().Set("Retry-After", "3600")
			refusal(w, 429, "rate_limit", "too many")
		}, reason: "failed", code: "model_unavailable", most: 1},

		"nothing":             passing(func(http.ResponseWriter, request) { panic(http.ErrAbortHandler) }),
		"cut before text":     passing(func(w http.ResponseWriter, _ request) { cut(w) }),
		"cut after text":      passing(func(w http.ResponseWriter, _ request) { cut(w, text("half of")) }),
		"cut in a tool call":  passing(func(w http.ResponseWriter, _ request) { cut(w, toolCall(0, "Bash", `{"comm`)) }),
		"cut after thinking":  passing(func(w http.ResponseWriter, _ request) { cut(w, delta(obj{"reasoning_content": "hm"})) }),
		"only done":           passing(func(w http.ResponseWriter, _ request) { say(w) }),
		"no finish reason":    passing(func(w http.ResponseWriter, _ request) { say(w, text("half of")) }),
		"empty stream":        passing(func(w http.ResponseWriter, _ request) { whole(w, "text/event-stream", 200, "") }),
		"empty JSON":          passing(func(w http.ResponseWriter, _ request) { whole(w, "application/json", 200, "") }),
		"JSON without choice": passing(func(w http.ResponseWriter, _ request) { whole(w, "application/json", 200, `{"choices":[]}`) }),
		"wrong JSON":          passing(func(w http.ResponseWriter, _ request) { whole(w, "application/json", 200, `{"choices": [}`) }),
		"JSON of other types": passing(func(w http.ResponseWriter, _ request) { whole(w, "application/json", 200, `{"choices": "none"}`) }),
		"JSON list":           passing(func(w http.ResponseWriter, _ request) { whole(w, "application/json", 200, `[]`) }),
		"plain text":          passing(func(w http.ResponseWriter, _ request) { whole(w, "text/plain", 200, "hello") }),
		"bytes": passing(func(w http.ResponseWriter, _ request) {
			whole(w, "application/octet-stream", 200, "\x00\xff\xfe{{")
		}),
		"web page":     final(func(w http.ResponseWriter, _ request) { whole(w, "text/html", 200, "<html>") }),
		"broken chunk": passing(func(w http.ResponseWriter, _ request) { say(w, text("half of"), `{"choices"`, finish("stop")) }),
		"error in the stream": passing(func(w http.ResponseWriter, _ request) {
			say(w, text("half of"), `{"error":{"message":"out of memory"}}`)
		}),
		"refusal in the stream": final(func(w http.ResponseWriter, _ request) {
			say(w, text("half of"), `{"error":{"message":"no","code":"invalid_request_error"}}`)
		}),
		"aborted":          passing(func(w http.ResponseWriter, _ request) { say(w, text("half of"), finish("abort")) }),
		"silence":          passing(func(w http.ResponseWriter, r request) { stall(w, r) }),
		"silence in text":  passing(func(w http.ResponseWriter, r request) { stall(w, r, text("half of")) }),
		"NUL in a refusal": final(refuse(400, "", "no\x00way\x07")),
		"NUL in a fault":   passing(refuse(503, "", "later\x00")),

		"empty answer": {
			answer: func(w http.ResponseWriter, _ request) { say(w, finish("stop")) },
			reason: "empty_answer", code: "empty_answer", least: 3, most: 3,
		},
		"only thinking": {
			answer: func(w http.ResponseWriter, _ request) { say(w, delta(obj{"reasoning": "hm"}), finish("stop")) },
			reason: "empty_answer", code: "empty_answer", least: 3, most: 3,
		},
		"answer too long": {
			answer: func(w http.ResponseWriter, _ request) { say(w, text("and so on"), finish("length")) },
			reason: "output_limit", code: "output_limit", least: 4, most: 4,
		},
		"content filter": {
			answer: func(w http.ResponseWriter, _ request) { say(w, finish("content_filter")) },
			reason: "content_filtered", code: "content_filtered", most: 1,
		},
		"300 calls at once": final(func(w http.ResponseWriter, _ request) { say(w, manyCalls(300)...) }),

		"calls that never validate": {answer: func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, "Bash", fmt.Sprintf(`{"comand":"echo %d"}`, r.n)), finish("tool_calls"))
		}, setup: domain.SessionSetup{MaxSteps: 5}, reason: "max_steps", code: "max_steps", least: 5, most: 5},
		"arguments that never parse": {answer: func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, "Bash", fmt.Sprintf(`{"command":"echo %d`, r.n)), finish("tool_calls"))
		}, setup: domain.SessionSetup{MaxSteps: 5}, reason: "max_steps", code: "max_steps", least: 5, most: 5},
		"unknown tools": {answer: func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, fmt.Sprintf("Tool%d", r.n), `{}`), finish("tool_calls"))
		}, setup: domain.SessionSetup{MaxSteps: 5}, reason: "max_steps", code: "max_steps", least: 5, most: 5},
		"calls without a name": {answer: func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, "", fmt.Sprintf(`{"n":%d}`, r.n)), finish("tool_calls"))
		}, reason: "stuck_detected", code: "stuck_detected", least: 4, most: 4},
		"the same call without end": {answer: func(w http.ResponseWriter, _ request) {
			say(w, toolCall(0, "Bash", `{"command":"true"}`), finish("tool_calls"))
		}, setup: domain.SessionSetup{StuckAfter: 3}, reason: "stuck_detected", code: "stuck_detected", least: 4, most: 4},
		"answers that never fit": {answer: func(w http.ResponseWriter, r request) {
			say(w, text(fmt.Sprintf(`{"n":"%d"}`, r.n)), finish("stop"))
		}, schema: `{"type":"object","properties":{"n":{"type":"integer"}}}`, reason: "schema_mismatch", code: "schema_mismatch", least: 3, most: 3},
		"empty answers to a schema": {
			answer: func(w http.ResponseWriter, _ request) { say(w, finish("stop")) },
			schema: `{"type":"object"}`, reason: "schema_mismatch", code: "schema_mismatch", least: 3, most: 3,
		},

		"too long":               overflowing(withTools(refuse(400, "context_length_exceeded", "too long"))),
		"too long, each request": overflowing(refuse(400, "context_length_exceeded", "too long")),
		"too long after a summary": {
			answer: withTools(refuse(400, "context_length_exceeded", "too long")),
			steps:  5, reason: "context_overflow", code: "context_overflow", least: 3, most: 4,
		},
		"too long in the stream": overflowing(withTools(func(w http.ResponseWriter, _ request) {
			say(w, text("half of"), `{"error":{"message":"context size has been exceeded"}}`)
		})),
	} {
		cases[name] = c
	}

	for i, words := range []string{
		"This model's maximum context length is 10 tokens", "exceeds maximum model length", "the model's context length is only 10",
		"request exceeds the available context size", "Context size has been exceeded.", "input exceeds the context window of 10",
		"message exceeds the maximum allowed length", "tokens exceed context window", "prompt exceeds maximum context",
		"prompt is too long: 11 > 10", "input is too long for the model", "the input token count (11) exceeds 10",
		"please reduce the length of the messages",
		"`inputs` tokens + `max_new_tokens` must be <= 10", "exceed_context_size",
	} {
		status := []int{400, 413, 422, 500}[i%4]
		cases[fmt.Sprintf("length %d, status %d", i, status)] = overflowing(withTools(refuse(status, "", words)))
	}

	return cases
}

func manyCalls(n int) (pieces []string) {
	for i := range n {
		pieces = append(pieces, toolCall(i, "Bash", fmt.Sprintf(`{"command":"echo %d","description":"%s"}`, i, strings.Repeat("d", 150))))
	}

	return append(pieces, finish("tool_calls"))
}

// stall streams pieces and then says nothing until the client leaves.
func stall(w http.ResponseWriter, r request, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")

	for _, piece := range pieces {
		_, _ = io.WriteString(w, "data: "+piece+"\n\n")
	}

	_ = http.NewResponseController(w).Flush()

	<-r.left
}

// TestModelFaults_bounded holds, for every fault that a model server can show,
// how many model calls a chat makes at most, and that it ends once and says why.
func TestModelFaults_bounded(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	cases := faultCases()
	server := newFaultServer(t, cases)
	s.retry(modelretry.Policy{For: 2 * time.Second})
	s.useModels(server.URL)

	limit := make(chan struct{}, 6) // chats at once

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			limit <- struct{}{}
			defer func() { <-limit }()

			s := s.in(t)

			session := s.onModel(name, c.setup)
			for range c.steps {
				server.mu.Lock()
				server.sound[name]++
				server.mu.Unlock()
				s.talk(session, "hello")
			}

			ack := s.headless(session, c.schema)
			end := s.awaitEnd(session, ack.ChatID)
			require.Equal(t, c.reason, end["finish_reason"], end)

			require.Equal(t, "failed", end["status"])

			if c.code != "" {
				fault := end["error"].(map[string]any)
				require.Equal(t, c.code, fault["code"], end)
				require.Equal(t, c.code == "model_unavailable", fault["retryable"])
			}

			require.LessOrEqual(t, server.count(name), c.most, "model calls")
			require.GreaterOrEqual(t, server.count(name), max(c.least, 1), "model calls")
			s.checkEvents(session)

			made := server.count(name)
			server.mu.Lock()
			server.sound[name] = 1
			server.mu.Unlock()
			require.Equal(t, "completed", s.talk(session, "go on")["finish_reason"], "the next message goes on")
			require.Equal(t, made, server.count(name), "nothing calls the model after the end")
		})
	}
}

// silence is after how long a model server that says nothing is given up: longer than a
// sound one needs on a busy machine.
const silence = 10 * time.Second

// useModels puts another model server instead of the scripted one.
func (s *stack) useModels(url string) {
	models := model.New(model.Config{BaseURL: url, FirstTimeout: silence, IdleTimeout: silence, Limits: s.db})
	s.acts.Model.Models, s.acts.Compaction.Models = models, models
	s.configure(func(cfg *chat.Config) { cfg.Models = models })
}

// in returns the stack for a subtest.
func (s *stack) in(t *testing.T) *stack {
	return &stack{t: t, journal: s.journal, log: s.log, chats: s.chats, caller: s.caller, client: s.client, acts: s.acts}
}

func (s *stack) onModel(name string, setup domain.SessionSetup) domain.SessionID {
	s.t.Helper()
	made, err := s.journal.CreateSession(s.t.Context(), s.caller.User.ID, domain.NewSession{Model: &name, Setup: setup})
	require.NoError(s.t, err)

	return made.ID
}

// headless sends a message whose answer has to follow a schema; empty: any.
func (s *stack) headless(session domain.SessionID, schema string) domain.SendAck {
	s.t.Helper()

	send := domain.Send{
		SessionID: session, Message: []domain.ContentPart{{Type: "text", Text: "hello"}},
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	}
	if schema != "" {
		send.Headless, send.OutputSchema = true, json.RawMessage(schema)
	}

	ack, err := s.chats.Send(s.t.Context(), s.caller, send)
	require.NoError(s.t, err)

	return ack
}
