package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"everloop/api/session"
	"everloop/domain"
)

// nowhere is an event log that forgets.
type nowhere struct{}

func (nowhere) Publish(context.Context, domain.Event) (uint64, error)        { return 1, nil }
func (nowhere) Repeat(context.Context, domain.Event, uint64) (uint64, error) { return 1, nil }
func (nowhere) Lost(context.Context, []uint64) ([]uint64, error)             { return nil, nil }

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.String()
}

// fakeChats remembers what it was sent; the same client_message_id is the same chat.
type fakeChats struct {
	mu    sync.Mutex
	sent  []domain.Send
	known map[string]domain.SendAck
	stop  []bool
	err   error
	then  func(domain.SendAck) // after a message was taken
}

func (d *fakeChats) Send(_ context.Context, _ domain.Caller, send domain.Send) (domain.SendAck, error) {
	d.mu.Lock()
	if d.err != nil {
		defer d.mu.Unlock()
		return domain.SendAck{}, d.err
	}

	if ack, ok := d.known[send.ClientMessageID]; ok {
		defer d.mu.Unlock()

		ack.Duplicate = true

		return ack, nil
	}

	d.sent = append(d.sent, send)
	ack := domain.SendAck{ChatID: domain.ChatID(domain.NewID()), TurnID: domain.TurnID(domain.NewID()), DeliveryApplied: domain.DeliverRun}

	if send.ClientMessageID != "" {
		if d.known == nil {
			d.known = map[string]domain.SendAck{}
		}

		d.known[send.ClientMessageID] = ack
	}

	then := d.then
	d.mu.Unlock()

	if then != nil {
		then(ack)
	}

	return ack, nil
}

func (d *fakeChats) SendTo(
	ctx context.Context, caller domain.Caller, session domain.SessionRun, send domain.Send,
) (domain.SendAck, error) {
	send.SessionID = session.SessionID
	return d.Send(ctx, caller, send)
}

func (d *fakeChats) AnswerIn(
	ctx context.Context, caller domain.Caller, session domain.SessionRun, answer domain.Answer,
) (domain.AnswerAck, error) {
	return d.Answer(ctx, caller, session.SessionID, answer)
}

func (d *fakeChats) Answer(_ context.Context, _ domain.Caller, _ domain.SessionID, answer domain.Answer) (domain.AnswerAck, error) {
	return domain.AnswerAck{Resolved: answer.ToolCallID == "open", QuestionID: "q", ChatID: "c"}, nil
}

// openQuestion is a question of the inbox.
const openQuestion = "01a1ff63-403d-71f7-91f5-bf8d694cd459"

func (d *fakeChats) AnswerQuestion(_ context.Context, _ domain.Caller, questionID string, answer domain.Answer) (domain.AnswerAck, error) {
	if questionID != openQuestion {
		return domain.AnswerAck{}, domain.Newf(domain.NotFound, "question_not_found", "question %s does not exist", questionID)
	}

	if options := answer.Selections["0"]; len(options) == 1 && options[0] == 99 {
		wrong := domain.Invalidf("body.askuser_answer", "there is no such option")
		wrong.Code = domain.CodeInvalidAnswer

		return domain.AnswerAck{}, wrong
	}

	return domain.AnswerAck{Resolved: true, QuestionID: questionID, ChatID: "c"}, nil
}

func (d *fakeChats) Stop(_ context.Context, _ domain.Caller, _ domain.SessionID, andQueue bool) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.stop = append(d.stop, andQueue)

	return true, nil
}

func (d *fakeChats) StopIn(ctx context.Context, caller domain.Caller, session domain.SessionRun, andQueue bool) (bool, error) {
	return d.Stop(ctx, caller, session.SessionID, andQueue)
}

func (*fakeChats) Compact(context.Context, domain.Caller, domain.SessionID) (string, error) {
	return "", errors.New("no operation of REST compacts by it")
}

func (*fakeChats) StopChat(context.Context, domain.Caller, domain.SessionID, domain.ChatID) error {
	return nil
}

func (d *fakeChats) messages() []domain.Send {
	d.mu.Lock()
	defer d.mu.Unlock()

	return append([]domain.Send(nil), d.sent...)
}

// streams is one log of events for all sessions.
type streams struct {
	mu      sync.Mutex
	events  []domain.LoggedEvent
	changed chan struct{} // closed and replaced at every event
	open    int
	broken  bool
	meets   func() // called once, while a subscription is made
}

func newStreams() *streams { return &streams{changed: make(chan struct{})} }

func (s *streams) publish(name string, chatID domain.ChatID, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	seq := uint64(len(s.events) + 1)
	s.events = append(s.events, domain.LoggedEvent{
		Event: domain.Event{
			SessionID: "s",
			Name:      name,
			ChatID:    chatID,
			At:        time.Now(),
			Data:      json.RawMessage(data),
		},
		Seq:     seq,
		PrevSeq: seq - 1,
	})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *streams) subscribe(_ context.Context, _ domain.SessionID, after *uint64) (session.Subscription, error) {
	s.mu.Lock()
	meets := s.meets
	s.meets = nil
	s.mu.Unlock()

	if meets != nil {
		meets()
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.open++

	sub := &subscription{log: s, at: uint64(len(s.events))}
	if after != nil {
		sub.at = min(*after, sub.at)
	}

	return sub, nil
}

func (s *streams) subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.open
}

type subscription struct {
	log  *streams
	at   uint64
	once sync.Once
}

func (s *subscription) Next(ctx context.Context) (domain.LoggedEvent, error) {
	for {
		s.log.mu.Lock()
		if s.log.broken {
			s.log.mu.Unlock()
			return domain.LoggedEvent{}, errors.New("fell behind")
		}

		if s.at < uint64(len(s.log.events)) {
			e := s.log.events[s.at]
			s.at++
			s.log.mu.Unlock()

			return e, nil
		}

		changed := s.log.changed
		s.log.mu.Unlock()

		select {
		case <-changed:
		case <-ctx.Done():
			return domain.LoggedEvent{}, ctx.Err()
		}
	}
}

func (s *subscription) Position() uint64 { return s.at }

func (s *subscription) Close() {
	s.once.Do(func() {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()

		s.log.open--
	})
}

// turns makes up a history of any length. It stops at a gate, when it has one,
// before the turn of that number.
type turns struct {
	count  int
	failAt int // 0: never
	gateAt int
	gate   chan struct{}
	ended  chan int // when there is one, gets how many turns were taken
	asked  struct {
		after *int64
		limit int
	}
}

func (m *turns) LastSequence(context.Context, domain.SessionID) (int64, error) {
	return int64(m.count) - 1, nil
}

func (m *turns) Messages(ctx context.Context, _ domain.SessionID, after *int64, limit int, yield func(domain.Turn) error) error {
	m.asked.after, m.asked.limit = after, limit

	taken := 0

	if m.ended != nil {
		defer func() { m.ended <- taken }()
	}

	for i := range m.count {
		if m.failAt > 0 && i+1 == m.failAt {
			return errors.New("the database broke")
		}

		if m.gate != nil && i == m.gateAt {
			select {
			case <-m.gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}

		turn := domain.Turn{
			ID: domain.TurnID(domain.NewID()), Sequence: int64(i), Kind: domain.KindMessage, LoopID: domain.RootLoop, Role: domain.RoleUser,
			Blocks: []domain.Block{{Type: domain.BlockText, Content: "text of a turn that is about as long as turns are at the least"}},
		}
		if err := yield(turn); err != nil {
			return err
		}

		taken++
	}

	return nil
}

type tasks struct{ tail int }

func (k *tasks) one(id string) (domain.BackgroundTask, error) {
	if id != "task-1" {
		return domain.BackgroundTask{}, domain.Newf(domain.NotFound, "task_not_found", "task %s does not exist", id)
	}

	return domain.BackgroundTask{TaskID: id, Kind: domain.TaskShell, Status: domain.TaskRunning}, nil
}

func (k *tasks) List(context.Context, domain.SessionID) ([]domain.BackgroundTask, error) {
	t, err := k.one("task-1")
	return []domain.BackgroundTask{t}, err
}

func (k *tasks) Output(_ context.Context, _ domain.SessionID, id string, tail int) (domain.TaskOutput, error) {
	k.tail = tail
	_, err := k.one(id)

	return domain.TaskOutput{TaskID: id, Status: domain.TaskRunning, Tail: tail}, err
}

func (k *tasks) Stop(_ context.Context, _ domain.SessionID, id string) (domain.BackgroundTask, error) {
	return k.one(id)
}

// models is a gateway with one model that writes text, behind others.
type models struct {
	others []domain.Model
	err    error
}

func (m *models) Models(context.Context) ([]domain.Model, error) {
	return append(m.others, domain.Model{ID: "m-1", ContextWindow: 128000, Modalities: []string{"text"}}), m.err
}

func (m *models) Resolve(_ context.Context, requested string) (domain.Model, error) {
	switch {
	case m.err != nil && requested == "":
		return domain.Model{}, m.err
	case m.err != nil, requested == "m-alias":
		return domain.Model{ID: requested, ContextWindow: 1000}, nil
	case requested == "", requested == "m-1":
		return domain.Model{ID: "m-1", ContextWindow: 1000}, nil
	}

	return domain.Model{}, domain.Newf(domain.Invalid, domain.CodeUnknownModel, "there is no such model")
}

type deleter struct {
	mu  sync.Mutex
	ids []domain.SessionID
}

func (d *deleter) DeleteSession(_ context.Context, id domain.SessionID) error {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.ids = append(d.ids, id)

	return nil
}
