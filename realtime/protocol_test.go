package realtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"everloop/domain"
	"everloop/infra/tracing"
	"everloop/internal/testkit"
	"everloop/realtime"
)

// wire is the transport of one client, in memory.
type wire struct {
	id       string
	identity any
	ctx      context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex
	room    int // events that may still be queued; negative: as many as come
	drained func()
	got     []emitted
	closed  bool
}

type emitted struct {
	Name string
	Data map[string]any
	raw  json.RawMessage
}

func (w *wire) ID() string               { return w.id }
func (w *wire) Identity() any            { return w.identity }
func (w *wire) Context() context.Context { return w.ctx }

func (w *wire) OnDrained(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.drained = fn
}

func (w *wire) Emit(name string, data json.RawMessage) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.room == 0 || w.ctx.Err() != nil {
		return false
	}

	w.room--

	e := emitted{Name: name, raw: data}
	if err := json.Unmarshal(data, &e.Data); err != nil {
		panic(err)
	}

	w.got = append(w.got, e)

	return true
}

func (w *wire) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.closed = true
	w.cancel()
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.closed
}

func (w *wire) events() []emitted {
	w.mu.Lock()
	defer w.mu.Unlock()

	return append([]emitted(nil), w.got...)
}

// give makes room for n more events.
func (w *wire) give(n int) {
	w.mu.Lock()
	w.room = n
	drained := w.drained
	w.mu.Unlock()
	drained()
}

// fakeChats replaces the packages behind the ports.
type fakeChats struct {
	mu     sync.Mutex
	roles  map[string]domain.ViewerRole // by session
	dead   map[string]bool              // users whose credential was revoked
	fault  error
	calls  []string
	checks int // of credentials and subscriptions that are there already
}

func (o *fakeChats) Role(_ context.Context, _ domain.Caller, sessionID domain.SessionID) (domain.ViewerRole, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if role, ok := o.roles[string(sessionID)]; ok {
		return role, nil
	}

	return "", domain.SessionNotFound(sessionID)
}

func (o *fakeChats) Own(ctx context.Context, c domain.Caller, sessionID domain.SessionID) (domain.SessionRun, error) {
	role, err := o.Role(ctx, c, sessionID)
	if err == nil && role != domain.ViewerOwner {
		err = domain.Newf(domain.Forbidden, "forbidden", "only the owner of the session may change it")
	}

	return domain.SessionRun{SessionID: sessionID, OwnerID: c.User.ID}, err
}

func (o *fakeChats) Alive(_ context.Context, callers []domain.Caller) []bool {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.checks++

	alive := make([]bool, len(callers))
	for i, caller := range callers {
		alive[i] = !o.dead[caller.User.ID]
	}

	return alive
}

func (o *fakeChats) Visible(_ context.Context, viewers []domain.SessionViewer) ([]bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.checks++

	visible := make([]bool, len(viewers))
	for i, v := range viewers {
		_, visible[i] = o.roles[string(v.SessionID)]
	}

	return visible, o.fault
}

func (o *fakeChats) call(format string, args ...any) error {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.calls = append(o.calls, fmt.Sprintf(format, args...))

	return o.fault
}

func (o *fakeChats) SendTo(_ context.Context, c domain.Caller, session domain.SessionRun, s domain.Send) (domain.SendAck, error) {
	text := "" // of a what-if, which may have none
	if len(s.Message) > 0 {
		text = s.Message[0].Text
	}

	return domain.SendAck{ChatID: "c", TurnID: "t", DeliveryApplied: domain.DeliverRun},
		o.call("send %s %s %s %s", c.User.ID, session.SessionID, s.Delivery, text)
}

func (o *fakeChats) AnswerIn(_ context.Context, c domain.Caller, s domain.SessionRun, a domain.Answer) (domain.AnswerAck, error) {
	return domain.AnswerAck{Resolved: true, QuestionID: "q"}, o.call("answer %s %s %s", c.User.ID, s.SessionID, a.ToolCallID)
}

func (o *fakeChats) StopIn(_ context.Context, c domain.Caller, s domain.SessionRun, andQueue bool) (bool, error) {
	return !andQueue, o.call("stop %s %s %v", c.User.ID, s.SessionID, andQueue)
}

func (o *fakeChats) Compact(_ context.Context, c domain.Caller, id domain.SessionID) (string, error) {
	return "compaction-1", o.call("compact %s %s", c.User.ID, id)
}

func (o *fakeChats) change(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()

	fn()
}

// scene is a protocol with its fakeChats and clients.
type scene struct {
	*env
	chats    *fakeChats
	protocol *realtime.Protocol
	mine     string // a session that callers own
}

func newScene(t *testing.T, hub realtime.HubConfig, recheck time.Duration) *scene {
	s := &scene{env: newEnv(t, hub), mine: domain.NewID()}
	s.chats = &fakeChats{roles: map[string]domain.ViewerRole{s.mine: domain.ViewerOwner}, dead: map[string]bool{}}
	s.protocol = realtime.NewProtocol(realtime.ProtocolConfig{
		Hub: s.hub, Sessions: s.chats, Chats: s.chats, Recheck: recheck,
	})

	return s
}

func (s *scene) client(user string) *wire {
	return s.connectAs(domain.Caller{User: domain.User{ID: user}})
}

func (s *scene) connectAs(caller domain.Caller) *wire {
	ctx, cancel := context.WithCancel(context.Background())
	w := &wire{id: domain.NewID(), identity: caller, ctx: ctx, cancel: cancel, room: -1}
	s.protocol.Connected(w)
	s.t.Cleanup(func() { cancel(); s.protocol.Disconnected(w) })

	return w
}

// ask sends an event and gives the acknowledgement.
func (s *scene) ask(w *wire, name, payload string) map[string]any {
	s.t.Helper()

	var answer map[string]any

	s.protocol.Event(w, name, json.RawMessage(payload), func(v any) {
		data, err := json.Marshal(v)
		require.NoError(s.t, err)
		require.NoError(s.t, json.Unmarshal(data, &answer))
	})
	require.NotNil(s.t, answer, "no acknowledgement of %s %s", name, payload)

	return answer
}

func code(answer map[string]any) any {
	if fault, ok := answer["error"].(map[string]any); ok && answer["ok"] == false {
		return fault["code"]
	}

	return nil
}

func (s *scene) about(extra string) string { return fmt.Sprintf(`{"session_id":%q%s}`, s.mine, extra) }

func TestSubscribeAckAndEvents(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	w := s.client("u")
	a := s.author(s.mine, 1)
	a.publish(domain.EventChatStart, map[string]any{"trigger": "user"})
	a.publish(domain.EventTurnStart, map[string]any{"turn_id": "t1", "role": "assistant", "status": "streaming"})
	s.reached(a.events[1].Seq)
	s.state.set(domain.SessionID(s.mine), domain.LiveState{Status: domain.SessionRunning, WaitingReason: domain.WaitingModel, ChatID: "c1"})
	ack := s.ask(w, "session:subscribe", s.about(""))
	require.Equal(t, true, ack["ok"])
	require.Equal(t, s.mine, ack["session_id"])
	require.Equal(t, "running", ack["status"])
	require.Equal(t, "model", ack["waiting_reason"])
	require.Equal(t, "c1", ack["chat_id"])
	require.Equal(t, float64(a.events[1].Seq), ack["seq"])
	require.Equal(t, float64(0), ack["replayed"])
	require.Equal(t, false, ack["truncated"])
	require.Len(t, ack["open_turns"], 1)
	require.Equal(t, []any{}, ack["pending_questions"])
	require.Equal(t, []any{}, ack["queue"])
	require.Contains(t, ack, "last_end")
	require.Nil(t, ack["last_end"], "no chat has ended")

	a.publish(domain.EventTurnEnd, map[string]any{"turn_id": "t1", "status": "completed"})
	require.Eventually(t, func() bool { return len(w.events()) == 1 }, time.Minute, time.Millisecond)

	got := w.events()[0]
	require.Equal(t, "turn:end", got.Name)
	require.Equal(t, s.mine, got.Data["session_id"])
	require.Equal(t, float64(a.events[2].Seq), got.Data["seq"])
	require.Equal(t, float64(a.events[1].Seq), got.Data["prev_seq"])
	require.Equal(t, "c1", got.Data["chat_id"])
	require.NotEmpty(t, got.Data["ts"])

	// A new subscription takes the place of the old one.
	s.state.set(domain.SessionID(s.mine), domain.LiveState{LastEnd: &domain.LastEnd{ChatID: "c0", ChatEnded: domain.ChatEnded{
		Status: domain.FinishFailed.Status(), FinishReason: domain.FinishFailed, Steps: 3,
		Error: &domain.ChatError{Code: "model_refused", Message: "no"},
	}}})

	ack = s.ask(w, "session:subscribe", s.about(`,"after_seq":0`))
	require.Equal(t, float64(3), ack["replayed"])
	require.Equal(t, map[string]any{
		"chat_id": "c0", "status": "failed", "finish_reason": "failed", "steps": float64(3), "duration_ms": float64(0),
		"usage": map[string]any{"input_tokens": float64(0), "output_tokens": float64(0)},
		"error": map[string]any{"code": "model_refused", "message": "no", "retryable": false},
	}, ack["last_end"])
	require.Equal(t, float64(0), ack["seq"])
	require.Eventually(t, func() bool { return len(w.events()) == 4 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, s.hub.Stats().Subscriptions)

	require.Equal(t, map[string]any{"ok": true, "session_id": s.mine}, s.ask(w, "session:unsubscribe", s.about("")))
	require.Zero(t, s.hub.Stats().Subscriptions)
	require.Equal(t, map[string]any{"ok": true, "session_id": s.mine}, s.ask(w, "session:unsubscribe", s.about("")))
	a.publish("mark", nil)
	s.reached(a.events[3].Seq)
	require.Len(t, w.events(), 4)
}

func TestProtocol_requestsReachTheService(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	w := s.client("u")
	require.Equal(t, map[string]any{
		"ok": true, "chat_id": "c", "turn_id": "t", "delivery_applied": "run", "position": float64(0), "duplicate": false,
	}, s.ask(w, "chat:send", s.about(`,"message":"hi","delivery":"steer"`)))
	require.Equal(t, map[string]any{"ok": true, "resolved": true, "question_id": "q"},
		s.ask(w, "chat:send", s.about(`,"message":"","askuser_answer":{"tool_call_id":"call","selections":{"0":[0]}}`)))
	require.Equal(t, map[string]any{"ok": true, "stopped": true}, s.ask(w, "chat:stop", s.about("")))
	require.Equal(t, map[string]any{"ok": true, "stopped": false}, s.ask(w, "chat:stop", s.about(`,"scope":"chat_and_queue"`)))
	require.Equal(t, map[string]any{"ok": true, "compaction_id": "compaction-1"}, s.ask(w, "chat:compact", s.about("")))
	require.Equal(t, []string{
		"send u " + s.mine + " steer hi", "answer u " + s.mine + " call", "stop u " + s.mine + " false",
		"stop u " + s.mine + " true", "compact u " + s.mine,
	}, s.chats.calls)

	s.chats.fault = domain.Newf(domain.Conflict, domain.CodeSessionBusy, "busy")
	require.Equal(t, map[string]any{"ok": false, "error": map[string]any{"code": "session_busy", "message": "busy", "retryable": true}},
		s.ask(w, "chat:send", s.about(`,"message":"hi","delivery":"reject"`)))
	s.chats.fault = errors.New("password=secret")
	ack := s.ask(w, "chat:compact", s.about(""))
	require.Equal(t, "internal_error", code(ack))
	require.NotContains(t, fmt.Sprint(ack), "secret")
}

// TestProtocol_chatSend_bodies sends every body of the parser's table.
func TestProtocol_chatSend_bodies(t *testing.T) {
	text, err := os.ReadFile("../chatrequest/testdata/bodies.json")
	require.NoError(t, err)

	var cases []struct {
		Name, Code, Message string
		Body                json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	s := newScene(t, realtime.HubConfig{}, 0)

	w := s.client("ann")
	for _, test := range cases {
		payload, session := test.Body, json.RawMessage(strconv.Quote(s.mine))

		var fields map[string]json.RawMessage
		if json.Unmarshal(test.Body, &fields) == nil && fields != nil {
			if own := fields["session_id"]; own == nil || string(own) == "null" {
				fields["session_id"] = session
			}

			payload, err = json.Marshal(fields)
			require.NoError(t, err)
		}

		ack := s.ask(w, "chat:send", string(payload))
		if test.Code == "" {
			require.Equal(t, true, ack["ok"], "%s: %v", test.Name, ack)
			continue
		}

		require.Equal(t, test.Code, code(ack), test.Name)

		if test.Message != "*" {
			require.Equal(t, test.Message, ack["error"].(map[string]any)["message"], test.Name)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	w := s.client("u")
	shared := domain.NewID()
	s.chats.roles[shared] = domain.ViewerViewer
	theirs := domain.NewID()

	about := func(id, extra string) string { return fmt.Sprintf(`{"session_id":%q%s}`, id, extra) }
	for _, c := range []struct{ event, payload, code string }{
		{"session:subscribe", ``, "invalid_request"},
		{"session:subscribe", `[]`, "invalid_request"},
		{"session:subscribe", `"x"`, "invalid_request"},
		{"session:subscribe", `{}`, "invalid_request"},
		{"session:subscribe", `{"session_id":""}`, "invalid_request"},
		{"session:subscribe", `{"session_id":7}`, "invalid_request"},
		{"session:subscribe", s.about(`,"after_seq":-1`), "invalid_request"},
		{"session:subscribe", s.about(`,"after_seq":1.5`), "invalid_request"},
		{"session:subscribe", s.about(`,"after_seq":"1"`), "invalid_request"},
		{"session:subscribe", s.about(`,"after_seq":99999999999999999999999`), "invalid_request"},
		{"session:subscribe", about(theirs, ""), "session_not_found"},
		{"session:subscribe", about("no id at all", ""), "session_not_found"},
		{"session:subscribe", about("events.*", ""), "session_not_found"},
		{"session:unsubscribe", `{}`, "invalid_request"},
		{"session:unsubscribe", `{"session_id":{}}`, "invalid_request"},
		{"session:unsubscribe", `{"session_id":"no id"}`, "invalid_request"},
		{"chat:send", `{"message":"hi"}`, "invalid_request"},
		{"chat:send", s.about(`,"message":""`), "invalid_request"},
		{"chat:send", s.about(`,"message":"x","mode":"x"`), "invalid_request"},
		{"chat:send", s.about(`,"message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":["Red"]}}`), "invalid_answer"},
		{"chat:send", s.about(`,"message":"x","output_schema":{"type":"x"}`), "invalid_schema"},
		{"chat:send", s.about(`,"message":"x","output_schema":{"description":"\ud800"}`), "invalid_request"},
		{"chat:send", s.about(`,"message":"x","output_schema":{"\ud800":1}`), "invalid_request"},
		{"chat:send", s.about(`,"message":"x","output_schema":{"title":"\u0000"}`), "invalid_request"},
		{"chat:send", s.about(`,"message":"","askuser_answer":{"tool_call_id":"\u0000","selections":{"0":[0]}}`), "invalid_answer"},
		{"chat:send", about(theirs, `,"message":"hi"`), "session_not_found"},
		{"chat:send", about(shared, `,"message":"hi"`), "forbidden"},
		{"chat:stop", `{}`, "invalid_request"},
		{"chat:stop", s.about(`,"scope":"world"`), "invalid_request"},
		{"chat:stop", s.about(`,"scope":1`), "invalid_request"},
		{"chat:stop", about(shared, ""), "forbidden"},
		{"chat:stop", about(theirs, ""), "session_not_found"},
		{"chat:compact", `{"session_id":null}`, "invalid_request"},
		{"chat:compact", about(shared, ""), "forbidden"},
		{"chat:compact", about(theirs, ""), "session_not_found"},
		{"chat:sing", s.about(""), "unknown_event"},
		{"connect", ``, "unknown_event"},
	} {
		ack := s.ask(w, c.event, c.payload)
		require.Equal(t, c.code, code(ack), "%s %s: %v", c.event, c.payload, ack)
	}

	require.Empty(t, s.chats.calls)
	require.Empty(t, w.events())
	require.Equal(t, true, s.ask(w, "session:subscribe", about(shared, ""))["ok"]) // viewers may look

	// Without a callback a failure is an event, and a success is nothing.
	s.protocol.Event(w, "chat:sing", json.RawMessage(s.about("")), nil)
	s.protocol.Event(w, "chat:stop", nil, nil)
	s.protocol.Event(w, "chat:stop", json.RawMessage(s.about("")), nil)
	s.protocol.Malformed(w, "chat:send", domain.CodeMessageTooLarge, "too large", nil)
	got := w.events()
	require.Len(t, got, 3)
	require.Equal(t, map[string]any{
		"session_id": s.mine, "event": "chat:sing",
		"error": map[string]any{"code": "unknown_event", "message": "there is no event of that name", "retryable": false},
	}, got[0].Data)
	require.NotContains(t, got[1].Data, "session_id")
	require.Equal(t, "message_too_large", got[2].Data["error"].(map[string]any)["code"])

	for _, e := range got {
		require.Equal(t, "session:error", e.Name)
	}

	var answer any

	s.protocol.Malformed(w, "chat:send", domain.CodeInvalidRequest, "broken", func(v any) { answer = v })
	require.NotNil(t, answer)
}

func TestSlowConnectionResyncs(t *testing.T) {
	s := newScene(t, realtime.HubConfig{QueueEvents: 5}, 0)
	slow, quick := s.client("u"), s.client("u")
	s.ask(slow, "session:subscribe", s.about(""))
	s.ask(quick, "session:subscribe", s.about(""))
	a := s.author(s.mine, 1)

	slow.mu.Lock()
	slow.room = 3
	slow.mu.Unlock()

	for n := range 30 {
		a.publish("mark", nil)
		require.Eventually(t, func() bool {
			return len(quick.events()) == n+1 && len(slow.events()) == min(n+1, 3)
		}, time.Minute, time.Millisecond)
	}

	require.Len(t, slow.events(), 3)
	slow.give(-1)
	require.Eventually(t, func() bool {
		got := slow.events()
		return got[len(got)-1].Name == "session:resync"
	}, time.Minute, time.Millisecond)

	got := slow.events()
	last := got[len(got)-2]
	resync := got[len(got)-1]
	require.Equal(t, last.Data["seq"], resync.Data["seq"])
	require.Equal(t, s.mine, resync.Data["session_id"])
	require.Less(t, len(got), 30)
	require.Eventually(t, func() bool { return s.hub.Stats().Subscriptions == 1 }, time.Minute, time.Millisecond)

	ack := s.ask(slow, "session:subscribe", s.about(fmt.Sprintf(`,"after_seq":%d`, uint64(resync.Data["seq"].(float64)))))
	require.Equal(t, float64(30-(len(got)-1)), ack["replayed"])
	require.Eventually(t, func() bool { return len(slow.events()) == 31 }, time.Minute, time.Millisecond)

	n := 0

	for _, e := range slow.events() {
		if e.Name == "mark" {
			require.Equal(t, float64(a.events[n].Seq), e.Data["seq"])
			n++
		}
	}

	require.Equal(t, 30, n)
}

// TestSubscription_replayWaitsForSlowConnection: a long replay goes at the client's pace and
// needs no resync.
func TestSubscription_replayWaitsForSlowConnection(t *testing.T) {
	s := newScene(t, realtime.HubConfig{QueueEvents: 5}, 0)

	a := s.author(s.mine, 1)
	for range 700 {
		a.publish("mark", nil)
	}

	s.reached(a.events[699].Seq)
	w := s.client("u")
	w.room = 10
	s.ask(w, "session:subscribe", s.about(`,"after_seq":0`))

	for len(w.events()) < 700 {
		had := len(w.events())

		require.Eventually(t, func() bool { w.give(50); return len(w.events()) > had }, time.Minute, time.Millisecond)
	}

	for i, e := range w.events() {
		require.Equal(t, "mark", e.Name)
		require.Equal(t, float64(a.events[i].Seq), e.Data["seq"])
	}
}

func TestHub_subscribersShareOneEncoding(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)

	var all []*wire

	for range 200 {
		w := s.client("u")
		s.ask(w, "session:subscribe", s.about(""))
		all = append(all, w)
	}

	a := s.author(s.mine, 1)
	for range 20 {
		a.publish("mark", nil)
	}

	for _, w := range all {
		require.Eventually(t, func() bool { return len(w.events()) == 20 }, time.Minute, time.Millisecond)

		for i, e := range w.events() {
			require.Same(t, &all[0].events()[i].raw[0], &e.raw[0])
		}
	}
}

func TestProtocol_recheck(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 5*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())

	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.protocol.Run(ctx) }()

	defer func() { cancel(); <-ended }()

	w, stays := s.client("u"), s.client("v")
	s.ask(w, "session:subscribe", s.about(""))
	s.ask(stays, "session:subscribe", s.about(""))
	s.chats.change(func() { s.chats.dead["u"] = true })
	require.Eventually(t, w.isClosed, time.Minute, time.Millisecond)
	s.protocol.Disconnected(w)
	require.Equal(t, 1, s.hub.Stats().Subscriptions)

	s.chats.change(func() { s.chats.fault = errors.New("away"); s.chats.roles = map[string]domain.ViewerRole{} })
	s.checked(2)
	require.Equal(t, 1, s.hub.Stats().Subscriptions, "no answer changes nothing")
	s.chats.change(func() { s.chats.fault = nil; s.chats.roles[s.mine] = domain.ViewerOwner })

	s.chats.change(func() { delete(s.chats.roles, s.mine) })
	require.Eventually(t, func() bool { return len(stays.events()) == 1 }, time.Minute, time.Millisecond)

	got := stays.events()[0]
	require.Equal(t, "session:error", got.Name)
	require.Equal(t, "session_not_found", got.Data["error"].(map[string]any)["code"])
	require.Equal(t, s.mine, got.Data["session_id"])
	require.Zero(t, s.hub.Stats().Subscriptions)
	require.False(t, stays.isClosed())
}

// checked waits for so many checks of what is there already.
func (s *scene) checked(n int) {
	s.t.Helper()

	read := func() (checks int) {
		s.chats.change(func() { checks = s.chats.checks })
		return checks
	}
	before := read()

	require.Eventually(s.t, func() bool { return read() >= before+n }, time.Minute, time.Millisecond)
}

// However many connections there are, one question is about all of their credentials and
// another about all of their subscriptions.
func TestProtocol_RightsChanged_manyConnections(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)

	for i := range 300 {
		s.ask(s.client(fmt.Sprint("user ", i)), "session:subscribe", s.about(""))
	}

	s.chats.change(func() { s.chats.checks = 0 })
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{})
	require.Equal(t, 2, s.chats.checks)

	s.chats.dead["user 7"] = true
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{})
	require.Eventually(t, func() bool { return s.hub.Stats().Subscriptions == 299 }, time.Minute, time.Millisecond)

	delete(s.chats.roles, s.mine)
	s.chats.checks = 0
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: domain.SessionID(s.mine)})
	require.Equal(t, 1, s.chats.checks)
	require.Zero(t, s.hub.Stats().Subscriptions)
}

func TestProtocol_revokedCredential(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)
	w := s.client("u")
	s.chats.dead["u"] = true
	require.Equal(t, "unauthorized", code(s.ask(w, "chat:stop", s.about(""))))
	require.True(t, w.isClosed())
	require.Empty(t, s.chats.calls)
}

func TestProtocol_RightsChanged_endsSubscriptionsAtOnce(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)
	w := s.client("u")
	s.ask(w, "session:subscribe", s.about(""))
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: domain.SessionID(s.mine)})
	require.Equal(t, 1, s.hub.Stats().Subscriptions)
	delete(s.chats.roles, s.mine)
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: "another"})
	require.Equal(t, 1, s.hub.Stats().Subscriptions)
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: domain.SessionID(s.mine)})
	require.Zero(t, s.hub.Stats().Subscriptions)
}

func TestProtocol_RightsChanged_closes_connections_of_a_revoked_key(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)
	as := func(user string) *wire {
		return s.connectAs(domain.Caller{User: domain.User{ID: user}, KeyID: "key of " + user})
	}
	w, other := as("u"), as("v")

	s.protocol.RightsChanged(t.Context(), domain.RightsChange{UserID: "u"})
	require.False(t, w.isClosed(), "a user who was changed and may stay")

	s.chats.dead["u"], s.chats.dead["v"] = true, true
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{KeyID: "another"})
	require.False(t, w.isClosed())
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{KeyID: "key of u"})
	require.True(t, w.isClosed())
	require.False(t, other.isClosed(), "no other connection is checked")
}

// The right ends after it was checked and before the subscription is known.
func TestProtocol_RightsChanged_whileSubscribing(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)
	w := s.client("u")
	s.state.read = func() {
		s.chats.change(func() { delete(s.chats.roles, s.mine) })
		s.protocol.RightsChanged(t.Context(), domain.RightsChange{SessionID: domain.SessionID(s.mine)})
	}

	s.ask(w, "session:subscribe", s.about(""))
	require.Zero(t, s.hub.Stats().Subscriptions)

	got := w.events()
	require.Len(t, got, 1)
	require.Equal(t, "session:error", got[0].Name)
	require.Equal(t, "session_not_found", got[0].Data["error"].(map[string]any)["code"])
}

// The credential ends after the handshake checked it and before the connection is known.
func TestProtocol_RightsChanged_whileConnecting(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, time.Hour)
	s.chats.dead["u"] = true
	s.protocol.RightsChanged(t.Context(), domain.RightsChange{UserID: "u"})
	require.True(t, s.client("u").isClosed())
	require.False(t, s.client("v").isClosed())
}

func TestProtocol_disconnect(t *testing.T) {
	s := newScene(t, realtime.HubConfig{}, 0)
	w := s.client("u")
	w.room = 0 // its pump waits for room
	s.ask(w, "session:subscribe", s.about(""))
	s.author(s.mine, 1).publish("mark", nil)
	s.protocol.Disconnected(w)
	require.Zero(t, s.hub.Stats().Subscriptions)
	s.protocol.Disconnected(w)

	unknown := &wire{id: "x", identity: "not a caller", ctx: w.ctx, cancel: w.cancel}
	s.protocol.Connected(unknown)
	require.True(t, unknown.isClosed())
	s.protocol.Event(unknown, "chat:stop", nil, func(any) { t.Error("an unknown caller was answered") })
}

func TestClientEventSpans(t *testing.T) {
	t.Parallel()
	collector := testkit.Traces(t)
	traces, err := tracing.Open(t.Context(), tracing.Config{
		Endpoint: collector.URL, Logger: slog.New(slog.DiscardHandler), CloseWithin: time.Minute,
	})
	require.NoError(t, err)

	var inSpan trace.SpanContext

	s := newScene(t, realtime.HubConfig{}, 0)
	s.protocol = realtime.NewProtocol(realtime.ProtocolConfig{
		Hub: s.hub, Sessions: s.chats, Chats: spanChats{s.chats, &inSpan}, Tracer: traces.Requests(),
	})
	w := s.client("u")
	s.ask(w, "chat:send", `{"session_id":"`+s.mine+`","message":"s3cret"}`)
	s.ask(w, "chat:stop", `{"session_id":"s3cret"}`)
	s.ask(w, "s3cret:event", `{}`)
	traces.Close()

	spans := collector.Spans()
	require.Len(t, spans, 2)
	require.Equal(t, "chat:send", spans[0].Name)
	require.Equal(t, map[string]string{"everloop.event": "chat:send"}, spans[0].Attributes)
	require.Equal(t, spans[0].ID(), inSpan.SpanID().String(), "what the event asks for is below its span")
	require.Equal(t, "chat:stop", spans[1].Name)
	require.EqualValues(t, 2, spans[1].Status.Code, "it was refused")
	require.False(t, collector.Holds("s3cret"))
}

// spanChats is fakeChats, and keeps the span in which a message came.
type spanChats struct {
	*fakeChats
	inSpan *trace.SpanContext
}

func (d spanChats) SendTo(ctx context.Context, c domain.Caller, session domain.SessionRun, s domain.Send) (domain.SendAck, error) {
	*d.inSpan = trace.SpanContextFromContext(ctx)
	return d.fakeChats.SendTo(ctx, c, session, s)
}
