package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit/natskit"
	"everloop/realtime"
	"everloop/service/accounts"
)

// TestAccess_socketRights connects over Socket.IO with every kind of credential, and asks for
// its role on a session of another user, which session:subscribe and chat:send need.
func TestAccess_socketRights(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	owner := pgtest.User(t, db, "owner", false)
	session, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)

	a := access{db: db, auth: auth.New(accounts.New(db.DB), auth.Options{})}
	t.Cleanup(a.auth.Close)

	keyOf := func(userID string, scopes ...string) string {
		key, plaintext, hash := auth.NewKey(userID, "k")
		key.Scopes = scopes
		_, err := accounts.New(db.DB).CreateKey(t.Context(), key, hash[:])
		require.NoError(t, err)

		return plaintext
	}
	connect := func(key string) (domain.Caller, error) {
		found, err := a.handshake(t.Context(), key, &http.Request{RemoteAddr: "198.51.100.1:443", Header: http.Header{}})
		caller, _ := found.(domain.Caller)

		return caller, err
	}
	role := func(key string) string {
		caller, err := connect(key)
		require.NoError(t, err)

		role, err := a.Role(t.Context(), caller, session.ID)
		if err != nil {
			return domain.AsError(err).Code
		}

		return string(role)
	}

	root := pgtest.User(t, db, "root", true)
	require.Equal(t, string(domain.ViewerAdmin), role(keyOf(root.ID)))
	require.Equal(t, domain.CodeSessionNotFound, role(keyOf(pgtest.User(t, db, "other", false).ID)))

	for _, scope := range []auth.Scope{auth.SessionsRead, auth.SessionsWrite, auth.Chat} {
		require.Equal(t, domain.CodeSessionNotFound, role(keyOf(root.ID, string(scope))), "an administrator with %s", scope)
		require.Equal(t, string(domain.ViewerAdmin), role(keyOf(root.ID, string(scope), string(auth.Admin))))
	}

	_, err = connect(keyOf(root.ID, string(auth.Admin)))
	require.ErrorContains(t, err, auth.CodeScopeMissing, "no event is for this scope")

	ends := map[string]func(userID string){
		"disabled": func(userID string) {
			_, err := db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = now() WHERE id = $1`, userID)
			require.NoError(t, err)
		},
		"deleted": func(userID string) { require.NoError(t, accounts.New(db.DB).DeleteUser(t.Context(), userID)) },
		"demoted": func(userID string) {
			require.NoError(t, accounts.New(db.DB).SetAdministrator(t.Context(), userID, false))
		},
	}

	for name, end := range ends {
		user := pgtest.User(t, db, name, true)
		before, after := keyOf(user.ID), keyOf(user.ID)
		caller, err := connect(before)
		require.NoError(t, err)

		end(user.ID)
		a.auth.Forget(t.Context(), domain.RightsChange{UserID: user.ID})

		require.False(t, a.Alive(t.Context(), []domain.Caller{caller})[0], "the open connection of a %s user", name)

		if name == "demoted" {
			require.Equal(t, domain.CodeSessionNotFound, role(after))
			continue
		}

		_, err = connect(after)
		require.Equal(t, domain.CodeUnauthorized, domain.AsError(err).Code, name)
	}
}

// eventRights are the client events: what they carry next to the session id, and what those
// get who may read the session and do not own it. An event that is not here fails the walk.
var eventRights = map[string]struct{ payload, viewer string }{
	realtime.SessionSubscribe: {"", "ok"},
	// It ends a subscription of the connection, and returns nothing of the session.
	realtime.SessionUnsubscribe: {"", "ok"},
	realtime.ChatSend:           {`,"message":"hi"`, "forbidden"},
	realtime.ChatStop:           {"", "forbidden"},
	realtime.ChatCompact:        {"", "forbidden"},
}

// anyChats accepts everything, and counts it.
type anyChats struct{ calls int }

func (c *anyChats) SendTo(context.Context, domain.Caller, domain.SessionRun, domain.Send) (domain.SendAck, error) {
	c.calls++
	return domain.SendAck{}, nil
}

func (c *anyChats) AnswerIn(context.Context, domain.Caller, domain.SessionRun, domain.Answer) (domain.AnswerAck, error) {
	c.calls++
	return domain.AnswerAck{}, nil
}

func (c *anyChats) StopIn(context.Context, domain.Caller, domain.SessionRun, bool) (bool, error) {
	c.calls++
	return true, nil
}

func (c *anyChats) Compact(context.Context, domain.Caller, domain.SessionID) (string, error) {
	c.calls++
	return "", nil
}

// TestProtocol_rightsOfEveryEvent tries every client event with every kind of credential whose
// right has ended or never reached it, over the real accounts and sessions.
func TestProtocol_rightsOfEveryEvent(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	owner, member := pgtest.User(t, db, "owner", false), pgtest.User(t, db, "member", false)
	root, outsider := pgtest.User(t, db, "root", true), pgtest.User(t, db, "outsider", false)
	exec := func(sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}

	log, err := events.Open(t.Context(), natskit.New(t).Connect(), events.Config{})
	require.NoError(t, err)

	hub := realtime.NewHub(realtime.HubConfig{Log: log, State: db})
	go func() { _ = hub.Run(t.Context()) }()

	a := access{db: db, auth: auth.New(accounts.New(db.DB), auth.Options{})}
	t.Cleanup(a.auth.Close)

	auditor := auth.NewAuditor(accounts.New(db.DB), slog.New(slog.DiscardHandler), nil)
	chats := &anyChats{}
	protocol := realtime.NewProtocol(realtime.ProtocolConfig{Hub: hub, Sessions: a, Chats: chats, Auditor: auditor})

	keys := 0
	connect := func(user domain.User, scopes ...string) *socket {
		key, plaintext, hash := auth.NewKey(user.ID, "k")
		key.Scopes = scopes
		_, err := accounts.New(db.DB).CreateKey(t.Context(), key, hash[:])
		require.NoError(t, err)

		found, err := a.handshake(t.Context(), plaintext, &http.Request{RemoteAddr: "198.51.100.1:443", Header: http.Header{}})
		require.NoError(t, err)

		keys++
		s := &socket{caller: found.(domain.Caller), id: fmt.Sprint(keys)}
		s.ctx, s.cancel = context.WithCancel(t.Context())
		protocol.Connected(s)
		t.Cleanup(func() { protocol.Disconnected(s) })

		return s
	}

	session, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)
	shared, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)
	exec(`UPDATE sessions SET shared = true WHERE id = $1`, shared.ID)

	// ask returns ok, or the code of the refusal.
	ask := func(s *socket, name string, id domain.SessionID) (answer string) {
		payload := fmt.Sprintf(`{"session_id":%q%s}`, id, eventRights[name].payload)
		protocol.Event(s, name, json.RawMessage(payload), func(v any) {
			data, err := json.Marshal(v)
			require.NoError(t, err)

			var ack struct {
				OK    bool
				Error domain.Failure
			}
			require.NoError(t, json.Unmarshal(data, &ack))

			if answer = ack.Error.Code; ack.OK {
				answer = "ok"
			}
		})

		return answer
	}

	for name := range realtime.ClientEvents() {
		t.Run(name, func(t *testing.T) {
			rights, classified := eventRights[name]
			require.True(t, classified, "classify the event in eventRights")

			hidden := domain.CodeSessionNotFound
			if name == realtime.SessionUnsubscribe {
				hidden = "ok"
			}

			require.Equal(t, "ok", ask(connect(owner), name, session.ID), "the owner")
			did := chats.calls

			require.Equal(t, hidden, ask(connect(outsider), name, session.ID), "another user")
			require.Equal(t, rights.viewer, ask(connect(member), name, shared.ID), "a user, of a shared session")
			require.Equal(t, rights.viewer, ask(connect(root), name, session.ID), "an administrator")
			require.Contains(t, []string{hidden, auth.CodeScopeMissing},
				ask(connect(root, string(auth.SessionsRead)), name, session.ID), "an administrator who may read sessions")
			require.Equal(t, hidden, ask(connect(root, string(auth.SessionsRead), string(auth.Chat)), name, session.ID),
				"an administrator without admin")

			demoted := pgtest.User(t, db, "demoted by "+name, true)
			before := connect(demoted)
			require.NoError(t, accounts.New(db.DB).SetAdministrator(t.Context(), demoted.ID, false))
			a.auth.Forget(t.Context(), domain.RightsChange{UserID: demoted.ID})
			require.Equal(t, domain.CodeUnauthorized, ask(before, name, session.ID), "who no longer administers")
			require.Error(t, before.ctx.Err())
			require.Equal(t, hidden, ask(connect(demoted), name, session.ID), "who no longer administers, connected again")

			for _, column := range []string{"disabled_at", "deleted_at"} {
				// What belongs to a closed account is there for others as before, and for its
				// owner no more.
				s, viewer, other := connect(owner), connect(member), connect(outsider)
				exec(`UPDATE users SET `+column+` = now() WHERE id = $1`, owner.ID)
				a.auth.Forget(t.Context(), domain.RightsChange{UserID: owner.ID})
				require.Equal(t, domain.CodeUnauthorized, ask(s, name, session.ID), "the owner, with %s", column)
				require.Error(t, s.ctx.Err(), "the connection stays open")
				require.Equal(t, rights.viewer, ask(viewer, name, shared.ID), "a viewer, owner with %s", column)
				require.Equal(t, hidden, ask(other, name, session.ID), "another user, owner with %s", column)
				exec(`UPDATE users SET `+column+` = NULL WHERE id = $1`, owner.ID)
			}

			require.Equal(t, did, chats.calls, "a refused event did something")
		})
	}
}
