package systemtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// strictServer stands in front of the mock and refuses what a real server with
// its shape of ids would: ids of another shape, ids that repeat, and, in a tool
// loop, an answer without the reasoning that it was sent with.
type strictServer struct {
	shape *regexp.Regexp
	next  http.Handler

	mu       sync.Mutex
	requests [][]strictMessage
	refused  []string
}

type strictMessage struct {
	Role             string `json:"role"`
	ReasoningContent string `json:"reasoning_content"`
	ToolCallID       string `json:"tool_call_id"`
	ToolCalls        []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

func (s *strictServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))

		var got struct {
			Messages []strictMessage `json:"messages"`
		}
		if err != nil || json.Unmarshal(body, &got) != nil {
			http.Error(w, `{"error":{"message":"unreadable"}}`, http.StatusBadRequest)
			return
		}

		problem := s.problem(got.Messages)
		s.mu.Lock()

		s.requests = append(s.requests, got.Messages)
		if problem != "" {
			s.refused = append(s.refused, problem)
		}
		s.mu.Unlock()

		if problem != "" {
			http.Error(w, `{"error":{"message":"`+problem+`"}}`, http.StatusBadRequest)
			return
		}
	}

	s.next.ServeHTTP(w, r)
}

func (s *strictServer) problem(messages []strictMessage) string {
	user := 0

	for i, m := range messages {
		if m.Role == "user" {
			user = i
		}
	}

	seen := map[string]bool{}

	for i, m := range messages {
		for _, call := range m.ToolCalls {
			if !s.shape.MatchString(call.ID) || seen[call.ID] {
				return "Tool call id was " + call.ID + " but must be another"
			}

			seen[call.ID] = true
		}

		if m.ToolCallID != "" && !seen[m.ToolCallID] {
			return "Tool message without its call"
		}

		if len(m.ToolCalls) > 0 && (m.ReasoningContent == "hm") != (i > user) {
			return "reasoning_content is missing or too much"
		}
	}

	return ""
}

// A server's ids and reasoning make the round through the whole agent: answer,
// ledger, transcript, prompt.
func TestStrictModelServers(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		shape, first, second string
	}{
		"Mistral": {`^[a-zA-Z0-9]{9}$`, "D681PevKs", "bbc5b7ede"},
		"Kimi K2": {`^functions\.[A-Za-z]+:\d+$`, "functions.Bash:0", "functions.Bash:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			strict := &strictServer{shape: regexp.MustCompile(c.shape)}
			s := newStackBehind(t, func(mock http.Handler) http.Handler {
				strict.next = mock
				return strict
			})
			id := s.session()
			call := func(id string) obj { return obj{"name": "Bash", "id": id, "arguments": obj{"command": "echo hi"}} }
			first := script(obj{"steps": []obj{
				{"thinking": "hm", "calls": []obj{call(c.first), call(c.second)}},
				{"thinking": "hm", "calls": []obj{call(c.first)}}, // it repeats
				{"text": "done"},
			}})
			ack := s.send(id, first)
			require.Equal(t, "completed", s.awaitEnd(id, ack.ChatID)["status"])
			ack = s.send(id, script(obj{"steps": []obj{{"text": "again"}}}))
			require.Equal(t, "completed", s.awaitEnd(id, ack.ChatID)["status"])

			strict.mu.Lock()
			defer strict.mu.Unlock()

			require.Empty(t, strict.refused)
			require.Len(t, strict.requests, 4)
			last := strict.requests[3]

			var sent []string

			for _, m := range last {
				for _, call := range m.ToolCalls {
					sent = append(sent, call.ID)
				}
			}

			require.Len(t, sent, 3)
			require.Equal(t, []string{c.first, c.second}, sent[:2])

			for _, turn := range s.messages(id) {
				for _, call := range turn.ToolCalls {
					require.True(t, strings.HasPrefix(call.ID, "call_"), "clients see Everloop's ids")
					require.Equal(t, domain.CallDone, call.Status)
				}
			}
		})
	}
}
