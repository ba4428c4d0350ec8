package systemtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/model"
)

// scripted answers the calls to a model one after the other; the last answer repeats.
func scripted(answers ...func(http.ResponseWriter, request)) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, r request) { answers[min(r.n, len(answers))-1](w, r) }
}

// said returns an answer of these pieces.
func said(pieces ...string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) { say(w, pieces...) }
}

func thought(text string) string { return delta(obj{"reasoning_content": text}) }

// answersServer is a model server with the requests that it received.
type answersServer struct {
	*faultServer

	mu       sync.Mutex
	requests map[string][]request
}

func newAnswersServer(t *testing.T, s *stack, cases map[string]func(http.ResponseWriter, request)) *answersServer {
	t.Helper()

	server := &answersServer{requests: map[string][]request{}}

	recorded := map[string]faultCase{}
	for name, answer := range cases {
		recorded[name] = faultCase{answer: func(w http.ResponseWriter, r request) {
			server.mu.Lock()
			server.requests[name] = append(server.requests[name], r)
			server.mu.Unlock()
			answer(w, r)
		}}
	}

	server.faultServer = newFaultServer(t, recorded)
	s.useModels(server.URL)

	return server
}

// prompts returns the messages of each request to a model, as JSON.
func (s *answersServer) prompts(name string) (prompts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, r := range s.requests[name] {
		prompts = append(prompts, jsonText(r.messages))
	}

	return prompts
}

// requireAlternating holds that no prompt has two messages of users, or of the assistant,
// in a row.
func (s *answersServer) requireAlternating(t *testing.T, name string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()

	for i, r := range s.requests[name] {
		before := ""

		for _, m := range r.messages {
			role := m.(map[string]any)["role"].(string)
			require.False(
				t,
				role == before && role != "tool",
				"request %d has two %s messages in a row: %s",
				i+1,
				role,
				jsonText(r.messages),
			)

			before = role
		}
	}
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return string(raw)
}

// lastAnswer returns the newest turn of the agent.
func (s *stack) lastAnswer(session domain.SessionID) domain.Turn {
	s.t.Helper()

	var last domain.Turn

	for _, turn := range s.messages(session) {
		if turn.Role == domain.RoleAssistant {
			last = turn
		}
	}

	return last
}

func textOf(turn domain.Turn) string {
	var all strings.Builder

	for _, b := range turn.Blocks {
		if b.Type == domain.BlockText {
			all.WriteString(b.Content)
		}
	}

	return all.String()
}

// TestChat_answersThatAreNotWhole holds how a chat ends whose model stops for another
// reason than that it has answered.
func TestChat_answersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	cases := map[string]struct {
		answer func(http.ResponseWriter, request)
		reason string
		calls  int
		text   string
	}{
		"cut twice": {
			scripted(
				said(text("one "), finish("length")), said(text("two "), finish("length")), said(text("three"), finish("stop")),
			), "completed", 3, "one two three",
		},
		"cut without end":  {said(text("on "), finish("length")), "output_limit", 4, "on on on on "},
		"cut in reasoning": {scripted(said(thought("hm"), finish("length")), said(text("yes"), finish("stop"))), "completed", 2, "yes"},
		"only reasoning":   {said(thought("hm"), finish("length")), "output_limit", 4, ""},
		"empty once":       {scripted(said(finish("stop")), said(text("yes"), finish("stop"))), "completed", 2, "yes"},
		"empty":            {said(finish("stop")), "empty_answer", 3, ""},
		"blank":            {said(text(" \n"), finish("stop")), "empty_answer", 3, " \n \n \n"},
		"thinking alone":   {said(thought("hm"), finish("stop")), "empty_answer", 3, ""},
		"filtered":         {said(text("half"), finish("content_filter")), "content_filtered", 1, "half"},
		"filtered later": {
			scripted(said(text("a "), finish("length")), said(text("b"), finish("content_filter"))), "content_filtered", 2, "a b",
		},
		"cut, then empty": {scripted(said(text("a"), finish("length")), said(finish("stop"))), "completed", 2, "a"},
	}

	answers := map[string]func(http.ResponseWriter, request){}
	for name, c := range cases {
		answers[name] = c.answer
	}

	server := newAnswersServer(t, s, answers)

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := s.in(t)
			session := s.onModel(name, domain.SessionSetup{})
			end := s.awaitEnd(session, s.send(session, "hello").ChatID)

			require.Equal(t, c.reason, end["finish_reason"], end)
			require.Equal(t, c.calls, server.count(name), "model calls")
			require.Equal(t, c.text, textOf(s.lastAnswer(session)))
			server.requireAlternating(t, name)

			if c.reason != "completed" {
				require.Equal(t, "failed", end["status"])
				require.Equal(t, c.reason, end["error"].(map[string]any)["code"])
			}
		})
	}
}

// TestChat_outputLimit_keepsText holds that a model reads what it had said before its
// answer reached the limit.
func TestChat_outputLimit_keepsText(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	cut := said(text("half "), finish("length"))
	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"m": scripted(cut, cut, cut, cut, said(text("done"), finish("stop"))),
	})
	session := s.onModel("m", domain.SessionSetup{})

	require.Equal(t, "output_limit", s.awaitEnd(session, s.send(session, "hello").ChatID)["finish_reason"])
	require.Equal(t, domain.TurnInterrupted, s.lastAnswer(session).Status)
	require.Equal(t, "completed", s.awaitEnd(session, s.send(session, "go on").ChatID)["finish_reason"])
	require.Contains(t, server.prompts("m")[4], `"half half half half "`)
}

// TestChat_cutPrompt holds that a session reports once that its model server cuts prompts, and
// that the cut is remembered of the model.
func TestChat_cutPrompt(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"m": said(text("an answer"), finish("stop"), `{"choices":[],"usage":{"prompt_tokens":2051,"completion_tokens":2}}`),
	})
	session := s.onModel("m", domain.SessionSetup{})
	s.talk(session, strings.Repeat("some words of text ", 6000))

	note := s.lastAnswer(session).Blocks[0]
	require.Equal(t, domain.BlockSystemNote, note.Type)
	require.Contains(t, note.Content, "it reports 2051 tokens")
	s.talk(session, "go on")
	require.Len(t, s.lastAnswer(session).Blocks, 1)

	opened, _, err := s.journal.ReadSession(t.Context(), s.caller.User, session)
	require.NoError(t, err)
	stats, err := s.acts.Compaction.ContextStats(t.Context(), opened)
	require.NoError(t, err)
	require.NotNil(t, stats.PromptCut)
	require.EqualValues(t, 2051, stats.PromptCut.Reported)
	require.Greater(t, stats.PromptCut.Estimated, int64(10_000))

	found, err := model.New(model.Config{BaseURL: "http://127.0.0.1:1", Limits: s.db}).Resolve(t.Context(), "m")
	require.NoError(t, err)
	require.EqualValues(t, 2051, found.PromptCut.Reported, "another process knows it")
}

// TestChat_cutCalls holds that a call which the end of an answer cut is not run, and that
// the model reads why.
func TestChat_cutCalls(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"once": scripted(
			said(
				toolCall(0, "Bash", `{"command":"echo whole"}`), toolCall(1, "Bash", `{"command":"echo ha`), finish("length"),
			),
			said(text("done"), finish("stop")),
		),
		"nameless": func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, "", fmt.Sprintf(`{"n":%d}`, r.n)), finish("tool_calls"))
		},
		"nameless once": scripted(said(toolCall(0, "", `{}`), finish("tool_calls")), said(text("done"), finish("stop"))),
		"tokens": scripted(
			said(toolCall(0, "Bash<|channel|>commentary", `{"command":"echo ran","timeout":"5000"}`), finish("tool_calls")),
			said(text("done"), finish("stop")),
		),
		"no arguments": scripted(said(toolCall(0, "TaskList", ``), finish("length")), said(text("done"), finish("stop"))),
		"always": func(w http.ResponseWriter, r request) {
			say(w, toolCall(0, "Bash", fmt.Sprintf(`{"command":"echo %d`, r.n)), finish("length"))
		},
	})

	for _, name := range []string{"once", "no arguments"} {
		session := s.onModel(name, domain.SessionSetup{})
		require.Equal(t, "completed", s.awaitEnd(session, s.send(session, "hello").ChatID)["finish_reason"])
		require.Contains(t, server.prompts(name)[1], "reached the limit of its length within this call")

		if name == "once" {
			require.Contains(t, server.prompts(name)[1], `"whole`)
		}
	}

	for name, reason := range map[string]string{"nameless": "stuck_detected", "nameless once": "completed"} {
		session := s.onModel(name, domain.SessionSetup{})
		require.Equal(t, reason, s.awaitEnd(session, s.send(session, "hello").ChatID)["finish_reason"])
		require.Contains(t, server.prompts(name)[1], "the call has no name")
	}

	require.Equal(t, 4, server.count("nameless"))

	session := s.onModel("tokens", domain.SessionSetup{})
	require.Equal(t, "completed", s.awaitEnd(session, s.send(session, "hello").ChatID)["finish_reason"])
	require.Contains(t, server.prompts("tokens")[1], `"ran`)
	require.NotContains(t, server.prompts("tokens")[1], "channel")

	session = s.onModel("always", domain.SessionSetup{})
	require.Equal(t, "output_limit", s.awaitEnd(session, s.send(session, "hello").ChatID)["finish_reason"])
	require.Equal(t, 4, server.count("always"))
}

// TestModelFaults_paid holds that a turn costs four answers at most, whatever the server
// does, however long calls are retried, and that its chat ends once.
func TestModelFaults_paid(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.retry(modelretry.Policy{For: time.Hour})

	kinds := []struct {
		name   string
		paid   bool
		answer func(http.ResponseWriter, request)
	}{
		{"cut before text", true, func(w http.ResponseWriter, _ request) { cut(w) }},
		{"cut after text", true, func(w http.ResponseWriter, _ request) { cut(w, text("half of")) }},
		{"cut in a tool call", true, func(w http.ResponseWriter, _ request) { cut(w, toolCall(0, "Bash", `{"comm`)) }},
		{"no finish reason", true, said(text("half of"))},
		{"broken chunk", true, said(text("half of"), `{"choices"`, finish("stop"))},
		{"error in the stream", true, said(text("half of"), `{"error":{"message":"out of memory"}}`)},
		{"cut by length", true, said(text("half of"), finish("length"))},
		{"length in reasoning", true, said(thought("hm"), finish("length"))},
		{"empty", true, said(finish("stop"))},
		{"filtered", true, said(text("half of"), finish("content_filter"))},
		{"unavailable", false, refuse(http.StatusServiceUnavailable, "", "later")},
		{"refused", false, refuse(http.StatusBadRequest, "", "no")},
	}

	const chats = 24

	var mu sync.Mutex

	paid := map[string]int{}
	answers := map[string]func(http.ResponseWriter, request){}

	for n := range chats {
		name := fmt.Sprintf("sequence %d", n)
		random := rand.New(rand.NewPCG(uint64(n), 1))

		var sequence []func(http.ResponseWriter, request)

		unavailable := 0

		for len(sequence) < 12 {
			kind := kinds[random.IntN(len(kinds))]
			if !kind.paid {
				if unavailable++; unavailable > 2 { // each doubles the pause
					continue
				}
			}

			sequence = append(sequence, func(w http.ResponseWriter, r request) {
				if kind.paid {
					mu.Lock()
					paid[name]++
					mu.Unlock()
				}

				kind.answer(w, r)
			})
		}

		answers[name] = scripted(sequence...)
	}

	newAnswersServer(t, s, answers)

	for name := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := s.in(t)
			session := s.onModel(name, domain.SessionSetup{})
			ack := s.send(session, "hello")
			require.Equal(t, "failed", s.awaitEnd(session, ack.ChatID)["status"])

			ends := 0

			for _, e := range s.events(session) {
				if e.Name == domain.EventChatEnd {
					ends++
				}
			}

			require.Equal(t, 1, ends)
			mu.Lock()
			defer mu.Unlock()

			require.LessOrEqual(t, paid[name], 4, "answers")
		})
	}
}

// TestCompaction_summaryThatIsNotWhole holds that neither a cut nor an empty summary takes
// the place of the history.
func TestCompaction_summaryThatIsNotWhole(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	summaries := func(answers ...func(http.ResponseWriter, request)) func(http.ResponseWriter, request) {
		var mu sync.Mutex

		n := 0

		return func(w http.ResponseWriter, r request) {
			if r.tools {
				say(w, text("an answer"), finish("stop"))
				return
			}

			mu.Lock()
			n++
			r.n = n
			mu.Unlock()
			scripted(answers...)(w, r)
		}
	}

	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"cut":   summaries(said(text("half a summ"), finish("length"))),
		"empty": summaries(said(finish("stop"))),
		"cut twice": summaries(
			said(text("half a summ"), finish("length")),
			said(finish("stop")),
			said(text("a whole one"), finish("stop")),
		),
	})

	for name, status := range map[string]domain.CompactionStatus{"cut": "failed", "empty": "failed", "cut twice": "completed"} {
		session := s.onModel(name, domain.SessionSetup{})
		s.talk(session, "remember the number 4711", "hello", "hello", "hello")

		before := server.count(name)
		id, err := s.compacting.Request(t.Context(), s.caller, session)
		require.NoError(t, err)
		result, err := s.compacting.Await(t.Context(), s.caller, id)
		require.NoError(t, err)
		require.Equal(t, status, result.Status)
		require.Equal(t, before+3, server.count(name), "calls for the summary")
		s.talk(session, "go on")

		prompts := server.prompts(name)
		require.Equal(t, status == "failed", strings.Contains(prompts[len(prompts)-1], "4711"))
		require.NotContains(t, prompts[len(prompts)-1], "half a summ")
	}
}
