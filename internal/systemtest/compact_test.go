package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
)

// recalled returns one memory.
func recalled(_ context.Context, _, query string) ([]domain.RecalledMemory, error) {
	return []domain.RecalledMemory{
		{ID: 7, Type: domain.MemoryFeedback, Content: "prefers tabs; asked: " + strings.SplitN(query, "[[", 2)[0], Score: 0.5},
	}, nil
}

// small makes a session on the model with a window of 8,000 tokens.
func (s *stack) small(policy *domain.CompactionPolicy) domain.SessionID {
	s.t.Helper()

	name := mock.SmallModel
	made, err := s.journal.CreateSession(s.t.Context(), s.caller.User.ID, domain.NewSession{
		Model: &name, MemoryEnabled: true, Setup: domain.SessionSetup{Compaction: policy},
	})
	require.NoError(s.t, err)

	return made.ID
}

// filler is text of about so many tokens, by the mock model's count.
func filler(tokens int) string { return strings.Repeat("abc def ", tokens/2) }

// compactions returns the compaction entries of a session.
func (s *stack) compactions(session domain.SessionID) (found []domain.Turn) {
	for _, turn := range s.messages(session) {
		if turn.Kind == domain.KindCompaction {
			found = append(found, turn)
		}
	}

	return found
}

// beside returns the turns before and behind a compaction.
func (s *stack) beside(session domain.SessionID, c domain.Turn) (before, behind domain.Turn) {
	s.t.Helper()
	all := s.messages(session)
	require.Greater(s.t, c.Sequence, int64(0))
	require.Greater(s.t, len(all), int(c.Sequence)+1)

	return all[c.Sequence-1], all[c.Sequence+1]
}

func (s *stack) talk(session domain.SessionID, messages ...string) (end map[string]any) {
	s.t.Helper()

	for _, m := range messages {
		ack := s.send(session, m)
		end = s.awaitEnd(session, ack.ChatID)
	}

	return end
}

func plain(i, tokens int) string {
	return fmt.Sprintf("message %d %s", i, filler(tokens)) + script(obj{"steps": []obj{{"text": fmt.Sprintf("answer %d", i)}}})
}

var compactScenarios = map[string]func(t *testing.T, s *stack, session domain.SessionID){
	"compact_auto": func(t *testing.T, s *stack, session domain.SessionID) {
		for i := range 8 {
			require.Equal(t, "completed", s.talk(session, plain(i, 900))["finish_reason"])
		}

		found := s.compactions(session)
		require.NotEmpty(t, found)
		c := found[0]
		require.Equal(t, "auto", *c.Trigger)
		require.Equal(t, domain.TurnCompleted, c.Status)
		require.Equal(t, domain.RoleSystem, c.Role)
		require.Positive(t, *c.ArchivedCount)
		require.Less(t, *c.TokensAfter, *c.TokensBefore)
		require.Less(t, *c.TokensAfter, int64(6400))
		require.InDelta(t, float64(*c.TokensBefore-*c.TokensAfter)/float64(*c.TokensBefore), *c.SavedRatio, 0.001)
		require.Contains(t, *c.SummaryFull, "message 0")
		require.Positive(t, c.Usage.InputTokens)
		// It stands between the message that made it necessary and its answer.
		before, behind := s.beside(session, c)
		require.Equal(t, domain.RoleUser, before.Role)
		require.Equal(t, domain.RoleAssistant, behind.Role)

		event := s.await(session, domain.EventSessionCompacted, nil)
		require.NotEmpty(t, event)
	},
	"compact_in_loop": func(t *testing.T, s *stack, session domain.SessionID) {
		ack := s.send(session, "count"+script(obj{
			"loop": obj{"n": 30, "call": bash("echo {{i}} >> n; head -c 2400 /dev/zero | tr '\\0' x")}, "closing": "counted",
		}))
		end := s.awaitEnd(session, ack.ChatID)
		require.Equal(t, "completed", end["finish_reason"], end)
		require.EqualValues(t, 31, end["steps"], "no step was made twice, and summaries are none")
		require.Greater(t, len(s.compactions(session)), 1)

		input := int64(0)
		for _, turn := range s.messages(session) {
			input += turn.Usage.InputTokens
		}

		require.EqualValues(t, input, end["usage"].(map[string]any)["input_tokens"], "the chat's usage holds that of its summaries")
	},
	"compact_overflow": func(t *testing.T, s *stack, session domain.SessionID) {
		var end map[string]any
		for i := range 9 {
			end = s.talk(session, plain(i, 900))
			require.Equal(t, "completed", end["finish_reason"], end)
		}

		found := s.compactions(session)
		require.NotEmpty(t, found)
		require.Equal(t, "overflow", *found[0].Trigger)
		before, behind := s.beside(session, found[0])
		require.Equal(t, domain.TurnFailed, before.Status)
		require.Contains(t, *before.FailureReason, "maximum context length")
		require.NotEmpty(t, behind.Blocks, "%+v", behind)
		require.Contains(t, behind.Blocks[0].Content, "answer")
	},
	"compact_breaker": func(t *testing.T, s *stack, session domain.SessionID) {
		end := s.talk(session, filler(4800)+script(obj{"loop": obj{"n": 5, "call": bash("true")}}))
		require.Equal(t, "context_overflow", end["finish_reason"], end)
		require.Equal(t, "failed", end["status"])
	},
	"compact_failed": func(t *testing.T, s *stack, session domain.SessionID) {
		last := plain(9, 900)
		for i := range 5 {
			s.talk(session, plain(i, 700))
		}

		broken := obj{"status": 400, "error_message": "no summaries today"}
		end := s.talk(session, "x"+filler(600)+script(obj{"steps": []obj{{"text": "went on"}}, "summary": broken}))
		require.Equal(t, "completed", end["finish_reason"], "the call still fits")
		end = s.talk(session, last)
		require.Equal(t, "completed", end["finish_reason"], "the call still fits")

		found := s.compactions(session)
		require.NotEmpty(t, found)
		require.Equal(t, domain.TurnFailed, found[0].Status)
		require.Contains(t, *found[0].FailureReason, "no summaries today")
	},
	"compact_stop": func(t *testing.T, s *stack, session domain.SessionID) {
		for i := range 5 {
			s.talk(session, plain(i, 700))
		}

		held := obj{"text": "never", "hold": true}
		ack := s.send(session, "x"+filler(1400)+script(obj{"steps": []obj{{"text": "no"}}, "summary": held}))
		s.awaitSummary(session)
		s.stop(session)
		require.Equal(t, "interrupted", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		require.Empty(t, s.compactions(session))
	},
	"compact_steer": func(t *testing.T, s *stack, session domain.SessionID) {
		for i := range 5 {
			s.talk(session, plain(i, 700))
		}

		held := obj{"text": "the summary", "hold": true}
		ack := s.send(session, "x"+filler(1400)+script(obj{"steps": []obj{{"text": "first"}}, "summary": held}))
		s.awaitSummary(session)
		steered, err := s.chats.Send(t.Context(), s.caller, domain.Send{
			SessionID: session,
			Message:   []domain.ContentPart{{Type: "text", Text: "also" + script(obj{"steps": []obj{{"text": "steered answer"}}})}},
			Delivery:  domain.DeliverSteer,
			Trigger:   domain.TriggerUser,
		})
		require.NoError(t, err)
		require.Equal(t, ack.ChatID, steered.ChatID)
		s.release()
		require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
		all := s.messages(session)
		require.Equal(t, "steered answer", all[len(all)-1].Blocks[0].Content)
		require.Len(t, s.compactions(session), 1)
	},
}

// policies are those of scenarios that need one of their own.
var policies = map[string]*domain.CompactionPolicy{
	"compact_overflow": {Auto: false, ThresholdPct: 80, KeepLast: domain.DefaultCompaction.KeepLast},
}

func TestCompactions(t *testing.T) {
	t.Parallel()

	for name, scenario := range compactScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			session := s.small(policies[name])
			scenario(t, s, session)
			s.checkEvents(session)
			s.replay(session, name)
		})
	}
}

func TestManualCompaction(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.small(&domain.CompactionPolicy{Auto: true, ThresholdPct: 80, KeepLast: 2})
	ask := func() domain.CompactionResult {
		id, err := s.chats.Compact(t.Context(), s.caller, session)
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()

		result, err := s.compacting.Await(ctx, s.caller, id)
		require.NoError(t, err)
		require.Equal(t, id, result.CompactionID)

		return result
	}
	require.Equal(t, domain.CompactionSkipped, ask().Status, "there is nothing yet")

	for i := range 3 {
		s.talk(session, plain(i, 300))
	}

	result := ask()
	require.Equal(t, domain.CompactionCompleted, result.Status, result.Reason)
	require.Equal(t, 4, result.ArchivedCount)
	require.Less(t, result.TokensAfter, result.TokensBefore)

	found := s.compactions(session)
	require.Len(t, found, 1)
	require.Equal(t, result.CompactionID, *found[0].CompactionID)
	require.EqualValues(t, result.CompactionID, found[0].ID)
	require.Equal(t, "manual", *found[0].Trigger)
	require.Len(t, s.messages(session), 7, "nothing is deleted")

	again := ask()
	require.Equal(t, domain.CompactionSkipped, again.Status, "nothing was said since")
	require.Equal(t, "completed", s.talk(session, plain(4, 10))["finish_reason"])
	s.checkEvents(session)
	s.replay(session, "compact_manual")
}

func TestMemoriesAreRecalledOnceAChat(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	session := s.small(nil)
	s.talk(session, "hello"+script(obj{"steps": []obj{{"calls": []obj{bash("true")}}, {"echo": true}}}))
	turns := s.messages(session)
	require.JSONEq(t, `[{"memory_id":7,"score":0.5,"used":true}]`, toJSON(turns[1].MemoryRefs))
	require.Nil(t, turns[2].MemoryRefs)
	echoed := turns[2].Blocks[0].Content
	require.Equal(t, 1, strings.Count(echoed, "prefers tabs; asked: hello"))
}

func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return string(raw)
}

// control asks the mock model's control interface.
func (s *stack) control(method, path string) string {
	s.t.Helper()

	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	w := httptest.NewRecorder()
	s.model.Handler().ServeHTTP(w, r)
	require.Equal(s.t, 200, w.Code, w.Body.String())

	return w.Body.String()
}

// awaitSummary waits until the model is asked for a summary.
func (s *stack) awaitSummary(session domain.SessionID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return strings.Contains(s.control("GET", "/control/requests"), "Write the summary now")
	}, patience, 10*time.Millisecond, session)
}

// releaseUntil lets held answers continue, those that are held later too, until what
// they are needed for has happened.
func (s *stack) releaseUntil(happened func() bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.control("POST", "/control/release")
		return happened()
	}, patience, 20*time.Millisecond)
}

// anyChatEnded reports whether a chat of the session has ended, or waits for an answer.
func (s *stack) anyChatEnded(session domain.SessionID) bool {
	return slices.ContainsFunc(s.events(session), func(e domain.LoggedEvent) bool { return e.Name == domain.EventChatEnd })
}

// release lets held answers continue, once they are held.
func (s *stack) release() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return !strings.Contains(s.control("POST", "/control/release"), `"released":0`)
	}, patience, 10*time.Millisecond)
}
