package realtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/realtime"
)

// everyScope are the scopes that a key can be restricted to.
var everyScope = []auth.Scope{
	auth.SessionsRead, auth.SessionsWrite, auth.Chat, auth.Files, auth.Schedules, auth.Triggers, auth.Solutions, auth.Workspaces,
	auth.Skills, auth.SkillsWrite, auth.Admin,
}

// eventWalk is every client event: the scopes of which each alone is enough, nil
// for all, and payloads that are accepted.
var eventWalk = map[string]struct {
	enough   []auth.Scope
	payloads []string // what follows the session id
}{
	realtime.SessionSubscribe:   {[]auth.Scope{auth.SessionsRead, auth.SessionsWrite}, []string{"", `,"after_seq":0`}},
	realtime.SessionUnsubscribe: {nil, []string{""}},
	realtime.ChatSend: {[]auth.Scope{auth.Chat}, []string{
		`,"message":"hi"`, `,"askuser_answer":{"tool_call_id":"x","selections":{"0":[0]}}`,
	}},
	realtime.ChatStop:    {[]auth.Scope{auth.Chat}, []string{"", `,"scope":"chat_and_queue"`}},
	realtime.ChatCompact: {[]auth.Scope{auth.Chat}, []string{""}},
}

// restricted connects as a user whose key has scopes.
func (s *scene) restricted(scopes ...auth.Scope) *wire {
	caller := domain.Caller{User: domain.User{ID: "u"}, KeyID: "k"}
	for _, scope := range scopes {
		caller.Scopes = append(caller.Scopes, string(scope))
	}

	return s.connectAs(caller)
}

// TestProtocol_everyEventNeedsItsScope holds each client event to its scope in both
// directions, with keys of one scope each and of all but the ones that suffice.
func TestProtocol_everyEventNeedsItsScope(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	events := realtime.ClientEvents()
	require.Len(t, eventWalk, len(events), "an event is not walked")

	for name := range events {
		event, known := eventWalk[name]
		require.True(t, known, "%s is not walked", name)

		suffices := func(scope auth.Scope) bool {
			for _, enough := range event.enough {
				if scope == enough {
					return true
				}
			}

			return event.enough == nil
		}

		for _, extra := range event.payloads {
			before := len(s.chats.calls)

			var others []auth.Scope

			for _, scope := range everyScope {
				answer := s.ask(s.restricted(scope), name, s.about(extra))
				if suffices(scope) {
					require.Equal(t, true, answer["ok"], "%s with %s: %v", name, scope, answer)
					continue
				}

				others = append(others, scope)
				require.Equal(t, auth.CodeScopeMissing, code(answer), "%s with %s: %v", name, scope, answer)
			}

			called := len(s.chats.calls) - before
			if len(others) > 0 {
				require.Equal(t, auth.CodeScopeMissing, code(s.ask(s.restricted(others...), name, s.about(extra))))
			}

			require.Equal(t, called, len(s.chats.calls)-before, "a refused event did something")
			require.Equal(t, true, s.ask(s.restricted(), name, s.about(extra))["ok"], "a key without scopes")
		}
	}
}

// TestAdmits lists whose keys have a use for a connection.
func TestAdmits(t *testing.T) {
	t.Parallel()

	for _, scope := range everyScope {
		err := realtime.Admits(domain.Caller{Scopes: []string{string(scope)}})
		switch scope {
		case auth.SessionsRead, auth.SessionsWrite, auth.Chat:
			require.NoError(t, err, scope)
		default:
			require.True(t, domain.HasCode(err, auth.CodeScopeMissing), "%s: %v", scope, err)
		}
	}

	require.NoError(t, realtime.Admits(domain.Caller{}))
}

func TestEventsAreRateLimited(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	limiter := auth.NewLimiter(auth.RateLimit{PerMinute: 1, Burst: 3, Now: func() time.Time { return time.Unix(0, 0) }})
	s.protocol = realtime.NewProtocol(realtime.ProtocolConfig{Hub: s.hub, Sessions: s.chats, Chats: s.chats, Limiter: limiter})
	first, second, other := s.client("u"), s.client("u"), s.client("v")
	_, err := limiter.Take(domain.Caller{User: domain.User{ID: "u"}}) // a request over REST
	require.NoError(t, err)
	require.Equal(t, true, s.ask(first, realtime.ChatStop, s.about(""))["ok"])
	require.Equal(t, true, s.ask(second, realtime.ChatStop, s.about(""))["ok"])

	for _, w := range []*wire{first, second} {
		answer := s.ask(w, realtime.ChatStop, s.about(""))
		require.Equal(t, "rate_limited", code(answer))
		require.Equal(t, true, answer["error"].(map[string]any)["retryable"])
	}

	require.Equal(t, true, s.ask(other, realtime.ChatStop, s.about(""))["ok"])
	require.Len(t, s.chats.calls, 3)
}

// ledger keeps audit records.
type ledger struct{ records []string }

func (l *ledger) Audit(_ context.Context, actorID, action, target string, details map[string]string) error {
	l.records = append(l.records, strings.TrimSpace(actorID+" "+action+" "+target+" "+details["event"]+details["code"]))
	return nil
}

func TestProtocol_audit(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 10*time.Millisecond)

	var kept ledger

	theirs := domain.NewID()
	s.chats.roles[theirs] = domain.ViewerAdmin
	s.protocol = realtime.NewProtocol(realtime.ProtocolConfig{
		Hub: s.hub, Sessions: s.chats, Chats: s.chats, Auditor: auth.NewAuditor(&kept, slog.New(slog.DiscardHandler), nil),
	})
	w := s.client("root")
	about := fmt.Sprintf(`{"session_id":%q}`, theirs)
	require.Equal(t, true, s.ask(w, realtime.SessionSubscribe, about)["ok"])
	require.Equal(t, true, s.ask(w, realtime.SessionSubscribe, s.about(""))["ok"], "the caller's own session")
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: domain.SessionID(theirs)}) // a check of rights is no read
	require.Equal(t, "forbidden", code(s.ask(w, realtime.ChatStop, about)))
	require.Equal(t, "forbidden", code(s.ask(w, realtime.ChatStop, about)))
	require.Equal(t, auth.CodeScopeMissing, code(s.ask(s.restricted(auth.Files), realtime.SessionSubscribe, s.about(""))))
	require.Equal(t, []string{
		"root session.read " + theirs + " session:subscribe", "root auth.refused root forbidden", "u auth.refused u scope_missing",
	}, kept.records)
}
