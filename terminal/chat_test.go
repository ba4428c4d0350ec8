package terminal

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run runs the command against the fake service.
func (f *fake) run(o Options) (code int, out, notes string) {
	f.t.Helper()
	client, err := NewClient(f.server.URL, "el_right")
	require.NoError(f.t, err)

	var said screen

	shown := screen{shown: f.onShown}
	o.Out, o.Notes = &shown, &said

	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()

	code = Run(ctx, client, o)
	require.NoError(f.t, ctx.Err(), "it did not end by itself")

	return code, shown.String(), said.String()
}

func TestRun_streamsUntilChatEnds(t *testing.T) {
	f := newFake(t)
	f.onPost = func(body map[string]any) (int, any) {
		go func() {
			f.emit("chat:start", `"chat_id":"c1"`)
			f.emit("turn:patch", `"chat_id":"another","turn_id":"x","patch_type":"add_content","text_delta":"not mine"`)
			f.text("Hello ")
			f.text("world.")
			f.end("completed")
		}()

		return accept(body)
	}
	code, out, notes := f.run(Options{Message: "hi", Mode: "planning", Steer: true})
	require.Equal(t, ExitCompleted, code, notes)
	require.Equal(t, "Hello world.\n", out)
	require.Contains(t, notes, "everloop chat --session s1")
	require.Equal(t, "planning", f.posts[0]["mode"])
	require.Equal(t, "steer", f.posts[0]["delivery"])
	require.NotEmpty(t, f.posts[0]["client_message_id"])
}

func TestRun_reconnectsWithoutLossOrDuplicates(t *testing.T) {
	f := newFake(t)
	f.cut = map[int]int{0: 0, 1: 3, 2: 0, 3: 1}
	f.onPost = func(body map[string]any) (int, any) {
		f.emit("turn:patch", `"chat_id":"earlier","turn_id":"t0","patch_type":"add_content","text_delta":"before"`)
		f.emit("chat:start", `"chat_id":"c1"`)

		for _, word := range []string{"one ", "two ", "three ", "four ", "five"} {
			f.text(word)
		}

		f.end("completed")

		return accept(body)
	}
	code, out, notes := f.run(Options{Message: "count"})
	require.Equal(t, ExitCompleted, code, notes)
	require.Equal(t, "one two three four five\n", out)
	require.Equal(t, []string{"live", "0", "30", "30", "40"}, f.seen(), "each connection goes on where the last one broke")
	require.Contains(t, notes, "the connection was lost")
	require.Contains(t, notes, "connected again")
}

func TestRun_retryKeepsClientMessageID(t *testing.T) {
	f := newFake(t)
	tries := 0
	f.onPost = func(body map[string]any) (int, any) {
		if tries++; tries < 3 {
			return 503, map[string]any{"code": "service_unavailable", "detail": "the database is down", "retryable": true}
		}

		f.emit("chat:start", `"chat_id":"c1"`)
		f.end("failed")

		return accept(body)
	}
	code, _, notes := f.run(Options{Message: "hi"})
	require.Equal(t, ExitFailed, code, notes)
	require.Len(t, f.posts, 3)
	require.Equal(t, f.posts[0]["client_message_id"], f.posts[2]["client_message_id"])
}

func TestRun_showsErrorOfStream(t *testing.T) {
	f := newFake(t)
	f.onPost = func(body map[string]any) (int, any) {
		f.emit("chat:start", `"chat_id":"c1"`)
		f.mu.Lock()
		f.events = append(f.events, "event: session:error\ndata: {\"session_id\":\"s1\",\"event\":\"session:subscribe\",\"error\":"+
			`{"code":"session_not_found","message":"session s1 does not exist","retryable":false}}`+"\n\n")
		f.grown.Broadcast()
		f.mu.Unlock()

		return accept(body)
	}
	code, _, notes := f.run(Options{Message: "hi"})
	require.Equal(t, ExitTrouble, code)
	require.Contains(t, notes, "session s1 does not exist")
	require.Equal(t, []string{"live"}, f.seen()[:1])
}

func TestRun_answersQuestions(t *testing.T) {
	f := newFake(t)
	f.turns = askedOnce
	f.onPost = func(body map[string]any) (int, any) {
		if body["askuser_answer"] == nil {
			f.emit("chat:start", `"chat_id":"c1"`)
			f.text("Choose.")
			f.end("awaiting_answer")

			return accept(body)
		}

		f.emit("question:resolved", `"question_id":"qq"`)
		f.emit("chat:start", `"chat_id":"c1"`)
		f.text("Thanks.")
		f.end("completed")

		return 202, map[string]any{"chat_id": "c1", "resolved": true, "question_id": "qq"}
	}
	// What is typed: an option that is not there, one that is, several.
	code, out, notes := f.run(Options{Message: "ask me", Interactive: true, In: strings.NewReader("9\n2\n1, 2\n")})
	require.Equal(t, ExitCompleted, code, notes)
	require.Contains(t, out, "? Colour: Which colour?\n   1  Blue   Like the sea\n   2  Green\n")
	require.Contains(t, notes, "option must be 1 to 2")
	require.Contains(t, out, "Thanks.")
	require.Equal(t, 1, strings.Count(out, "Choose."))

	answer, _ := json.Marshal(f.posts[1]["askuser_answer"])
	require.JSONEq(t, `{"tool_call_id":"q1","selections":{"0":[1],"1":[0,1]}}`, string(answer))
}

func TestRun_questionWithoutTerminal(t *testing.T) {
	f := newFake(t)
	f.turns, f.status = askedOnce, "waiting_for_input"
	code, out, notes := f.run(Options{Session: "s1"})
	require.Equal(t, ExitQuestion, code)
	require.Contains(t, out, "Which colour?")
	require.Contains(t, out, "Which tools?")
	require.Contains(t, notes, `everloop chat --session s1 --answer "1"`)

	f.onPost = func(map[string]any) (int, any) {
		f.emit("chat:start", `"chat_id":"c1"`)
		f.text("Thanks.")
		f.end("completed")

		return 202, map[string]any{"chat_id": "c1", "resolved": true, "question_id": "qq"}
	}
	code, out, notes = f.run(Options{Continue: true, Answers: []string{"something else, really", "Editor"}})
	require.Equal(t, ExitCompleted, code, notes)
	require.Equal(t, "Thanks.\n", out)

	answer, _ := json.Marshal(f.posts[0]["askuser_answer"])
	require.JSONEq(t, `{"tool_call_id":"q1","custom":{"0":"something else, really"},"selections":{"1":[1]}}`, string(answer))
}

func TestRun_answerTooLate(t *testing.T) {
	f := newFake(t)
	f.turns, f.status = askedOnce, "waiting_for_input"
	f.onPost = func(map[string]any) (int, any) {
		f.mu.Lock()
		f.status = "completed"
		f.mu.Unlock()

		return 202, map[string]any{"resolved": false, "question_id": "qq"}
	}
	code, _, notes := f.run(Options{Session: "s1", Answers: []string{"1", "1"}})
	require.Equal(t, ExitCompleted, code)
	require.Contains(t, notes, "resolved elsewhere; the session is completed")
}

// The question was resolved by another client, and the session runs: this chat, or the
// next one of its queue.
func TestRun_answerTooLate_sessionRuns(t *testing.T) {
	ended := func(chat, status, reason string) map[string]any {
		return map[string]any{"chat_id": chat, "status": status, "finish_reason": reason, "error": map[string]any{"message": "broken"}}
	}

	for _, c := range []struct {
		name    string
		lastEnd map[string]any
		newest  string // chat of the newest turn
		follows bool
		code    int
		notes   string
	}{
		{"this chat", ended("c1", "completed", "awaiting_answer"), "c1", true, ExitCompleted, "completed"},
		{"this chat, a queued one was cancelled", ended("c2", "interrupted", "interrupted"), "c1", true, ExitCompleted, "completed"},
		{"the next chat", ended("c1", "failed", "failed"), "c2", false, ExitFailed, "broken"},
		{"a chat after the next", ended("c2", "completed", "completed"), "c3", false, ExitCompleted, "the session is running"},
		{"another branch", nil, "c2", false, ExitCompleted, "the session is running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.turns, f.status = askedOnce, "waiting_for_input"
			f.onPost = func(map[string]any) (int, any) {
				f.mu.Lock()
				f.status, f.lastEnd, f.turns = "running", c.lastEnd, `[{"chat_id":"`+c.newest+`"}]`
				f.mu.Unlock()

				if c.follows {
					f.text("Thanks.")
					f.end("completed")
				}

				return 202, map[string]any{"resolved": false, "question_id": "qq", "chat_id": "c1"}
			}
			code, out, notes := f.run(Options{Session: "s1", Answers: []string{"1", "1"}})
			require.Equal(t, c.code, code, notes)
			require.Contains(t, notes, c.notes)
			require.Equal(t, c.follows, strings.Contains(out, "Thanks."))
		})
	}
}

func TestRun_firstInterruptStopsSecondLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		ends bool // whether the chat ends when it is stopped
		code int
	}{{"stops", true, ExitInterrupted}, {"leaves", false, ExitLeft}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			interrupts := make(chan struct{}, 2)
			f.onPost = func(body map[string]any) (int, any) {
				f.emit("chat:start", `"chat_id":"c1"`)
				f.text("I begin")

				return accept(body)
			}
			f.onShown = func() { interrupts <- struct{}{} }
			f.onStop = func() {
				if c.ends {
					f.end("interrupted")
				} else {
					interrupts <- struct{}{}
				}
			}
			code, _, notes := f.run(Options{Message: "hi", Interrupts: interrupts})
			require.Equal(t, c.code, code, notes)
			require.Equal(t, 1, f.stops)
			require.Contains(t, notes, "stopping the chat")
		})
	}
}

func TestRun_headlessPrintsOnlyResult(t *testing.T) {
	f := newFake(t)
	f.onPost = func(body map[string]any) (int, any) {
		f.emit("chat:start", `"chat_id":"c1"`)
		f.text("noise")
		f.end("completed")

		return accept(body)
	}
	code, out, notes := f.run(Options{Message: "hi", Schema: json.RawMessage(`{"type":"object"}`)})
	require.Equal(t, ExitCompleted, code)
	require.Equal(t, "{\n  \"n\": 1\n}\n", out)
	require.Empty(t, notes)
	require.Equal(t, true, f.posts[0]["headless"])
	require.NotNil(t, f.posts[0]["output_schema"])
}

func TestRun_followsRunningChatFromStart(t *testing.T) {
	f := newFake(t)
	f.status, f.turns = "running", `[{"chat_id":"c0"},{"chat_id":"c1"}]`
	f.emit("turn:patch", `"chat_id":"c0","turn_id":"t0","patch_type":"add_content","text_delta":"old"`)
	f.emit("chat:start", `"chat_id":"c1"`)

	f.text("From the start ")
	go func() {
		f.waitStreams(1)
		f.text("to the end.")
		f.end("completed")
	}()

	code, out, notes := f.run(Options{Session: "s1"})
	require.Equal(t, ExitCompleted, code, notes)
	require.Equal(t, "From the start to the end.\n", out)
}

func TestRun_interactiveUntilEndOfInput(t *testing.T) {
	f := newFake(t)
	f.onPost = func(body map[string]any) (int, any) {
		f.emit("chat:start", `"chat_id":"c1"`)

		if body["message"] == "bad" {
			return 422, map[string]any{"code": "invalid_request", "detail": "that does not do"}
		}

		f.text("You said " + body["message"].(string) + ". ")
		f.end("completed")

		return accept(body)
	}
	code, out, notes := f.run(Options{Interactive: true, In: strings.NewReader("one\n\nbad\ntwo\n")})
	require.Equal(t, ExitCompleted, code, notes)
	require.Equal(t, 1, strings.Count(out, "You said one"))
	require.Equal(t, 1, strings.Count(out, "You said two"))
	require.Contains(t, notes, "that does not do")
	require.Len(t, f.posts, 3)
}

func TestRun_reportsFailuresClearly(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()

	f := newFake(t)

	f.onPost = accept
	for _, c := range []struct {
		name, base, key string
		options         Options
		want            string
	}{
		{"no server", gone.URL, "el_right", Options{Message: "hi"}, "is `make run` running?"},
		{"wrong key", f.server.URL, "el_wrong", Options{Message: "hi"}, "does not accept this API key"},
		{"no message", f.server.URL, "el_right", Options{}, "message is required"},
		{"model of an old session", f.server.URL, "el_right", Options{Session: "s1", Model: "m", Message: "hi"}, "keeps its model"},
		{"nothing to follow", f.server.URL, "el_right", Options{Session: "s1"}, "nothing to follow"},
		{"no question", f.server.URL, "el_right", Options{Session: "s1", Answers: []string{"1"}}, "has no open question"},
		{"no session", f.server.URL, "el_right", Options{Session: "nope", Message: "hi"}, "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := NewClient(c.base, c.key)
			require.NoError(t, err)

			var notes screen

			c.options.Out, c.options.Notes = io.Discard, &notes
			require.Equal(t, ExitTrouble, Run(t.Context(), client, c.options))
			require.Contains(t, notes.String(), c.want)
			require.NotContains(t, notes.String(), c.key)
		})
	}

	for _, base := range []string{"", "127.0.0.1:8020", "ftp://x", "http://"} {
		_, err := NewClient(base, "el_right")
		require.Error(t, err, base)
	}

	_, err := NewClient("http://x", "el\nright")
	require.Error(t, err)
}
