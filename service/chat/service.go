// Package chat takes what clients send to a session over REST and Socket.IO: it
// checks messages, answers and stops, makes them durable and wakes the session's
// workflow. Once committed, a message is durable; everything after it may fail and
// is retried by the reconciler. The package knows neither transports nor how a
// workflow runs.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"everloop/activities/tools/questions"
	"everloop/domain"
	"everloop/domain/schema"
	"everloop/domain/speech"
)

// Store reads and writes messages, questions and stops.
type Store interface {
	SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error)
	Enqueue(ctx context.Context, ownerID string, send domain.Send) (domain.Enqueued, error)
	RequestStop(ctx context.Context, ownerID string, sessionID domain.SessionID, andQueue bool) (domain.Stopped, error)
	// RequestChatStop stops one chat, running, waiting or queued, and no other of its session.
	RequestChatStop(ctx context.Context, ownerID string, sessionID domain.SessionID, chatID domain.ChatID) (domain.Stopped, error)
	Question(ctx context.Context, ownerID string, sessionID domain.SessionID, toolCallID string) (q domain.Question, open bool, err error)
	ResolveQuestion(ctx context.Context, ownerID string, q domain.Question, by, result string) (bool, error)
	ExpiredQuestions(ctx context.Context, after string, limit int) ([]domain.ExpiredQuestion, error)
	// InboxQuestion finds a question that the user may answer; question_not_found.
	InboxQuestion(ctx context.Context, userID, questionID string) (domain.InboxQuestion, error)
}

// Runs starts and wakes the runs of sessions.
type Runs interface {
	Wake(ctx context.Context, s domain.SessionRun) error
	Stop(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID) error
}

// Bus announces to running work that its chat was stopped.
type Bus interface {
	AnnounceStop(ctx context.Context, chatID domain.ChatID, attempt int) error
}

// Models resolves the names of models.
type Models interface {
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}

// Images stores the pictures and recordings of messages as objects.
type Images interface {
	Keep(ctx context.Context, sessionID domain.SessionID, dataURL string) (object string, err error)
	// KeepAudio stores a recording of at most so many bytes.
	KeepAudio(ctx context.Context, sessionID domain.SessionID, dataURL string, most int) (object string, err error)
}

// Pictures fetches pictures by their address, for messages.
type Pictures interface {
	// Picture returns a picture as a data URL. An address that the session may not reach is
	// picture_refused; one that gives no picture is picture_unavailable.
	Picture(ctx context.Context, sessionID domain.SessionID, address string) (dataURL string, err error)
}

// Config is what New needs.
type Config struct {
	Store  Store
	Runs   Runs
	Bus    Bus
	Models Models
	Images Images
	// Pictures fetches pictures by address; nil: such messages are refused.
	Pictures Pictures
	History  History
	Logger   *slog.Logger

	Compactions *Compactions

	// RecordingBytes is the size of the largest recording; 0: no model for speech is
	// configured.
	RecordingBytes int
}

// Service takes messages, answers and stops, for every edge.
type Service struct {
	cfg Config
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Bus == nil || cfg.Models == nil || cfg.Images == nil || cfg.History == nil ||
		cfg.Logger == nil ||
		cfg.Compactions == nil {
		return nil, errors.New("chat: the configuration needs Records, Runs, Bus, Models, Images, History, Logger and Compactions")
	}

	return &Service{cfg: cfg}, nil
}

// Send reads the session of a message as its owner's and sends it.
func (s *Service) Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error) {
	run, err := s.cfg.Store.SessionRun(ctx, caller.User.ID, send.SessionID)
	if err != nil {
		return domain.SendAck{}, err
	}

	return s.SendTo(ctx, caller, run, send)
}

// SendTo makes a message durable and wakes the session's workflow. The caller was found
// to own the session.
func (s *Service) SendTo(ctx context.Context, caller domain.Caller, run domain.SessionRun, send domain.Send) (domain.SendAck, error) {
	send.SessionID = run.SessionID

	if len(send.OutputSchema) > 0 {
		if _, err := schema.Compile(send.OutputSchema); err != nil {
			return domain.SendAck{}, err
		}

		send.Headless = true
	}

	if run.Model != nil {
		if _, err := s.cfg.Models.Resolve(ctx, *run.Model); domain.HasCode(err, domain.CodeUnknownModel) {
			return domain.SendAck{}, err
		}
	}

	var err error
	if send.Message, err = s.keep(ctx, send.SessionID, send.Message); err != nil {
		return domain.SendAck{}, err
	}

	if send.Whatif != nil {
		return s.whatif(ctx, caller, send)
	}

	taken, err := s.cfg.Store.Enqueue(ctx, caller.User.ID, send)
	if err != nil {
		return domain.SendAck{}, err
	}

	s.afterwards(ctx, func(ctx context.Context) {
		if taken.StopChat != "" {
			s.broadcastStop(ctx, send.SessionID, taken.StopChat)
			s.signalStop(ctx, send.SessionID, taken.StopChat)
		}

		if send.Parented {
			return
		}

		run.Open = taken.Ack.DeliveryApplied != domain.DeliverRun
		if taken.Ack.DeliveryApplied == domain.DeliverEnqueue && !send.FromPerson() {
			return // the run takes it when the chat ends; a parked run would collect a signal for each
		}

		s.wake(ctx, run)
	})

	return taken.Ack, nil
}

// keepPicture stores a picture as an object. One at an address is fetched first: the model
// server gets data only, and the history outlives the address.
func (s *Service) keepPicture(ctx context.Context, sessionID domain.SessionID, url string) (string, error) {
	if domain.IsWebAddress(url) && s.cfg.Pictures != nil {
		var err error
		if url, err = s.cfg.Pictures.Picture(ctx, sessionID, url); err != nil {
			return "", err
		}
	}

	return s.cfg.Images.Keep(ctx, sessionID, url)
}

// keep prepares a message for the store: clean text, pictures and recordings as objects.
func (s *Service) keep(ctx context.Context, sessionID domain.SessionID, parts []domain.ContentPart) ([]domain.ContentPart, error) {
	kept := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		p.Text = domain.CleanText(p.Text)
		if p.ImageURL != nil {
			object, err := s.keepPicture(ctx, sessionID, p.ImageURL.URL)
			if err != nil {
				return nil, err
			}

			p.ImageURL = &domain.ImageURL{URL: object}
		}

		if p.AudioURL != nil {
			if s.cfg.RecordingBytes == 0 {
				return nil, domain.Newf(domain.Invalid, speech.CodeOff,
					"recordings are not accepted here: no model for speech is configured (ASR_MODEL)")
			}

			object, err := s.cfg.Images.KeepAudio(ctx, sessionID, p.AudioURL.URL, s.cfg.RecordingBytes)
			if err != nil {
				return nil, err
			}

			p = domain.ContentPart{Type: p.Type, AudioURL: &domain.AudioURL{URL: object}}
		}

		kept[i] = p
	}

	return kept, nil
}

// Answer reads a session as its owner's and answers its question.
func (s *Service) Answer(
	ctx context.Context, caller domain.Caller, sessionID domain.SessionID, answer domain.Answer,
) (domain.AnswerAck, error) {
	return s.answerAs(ctx, caller.User.ID, caller, sessionID, answer)
}

// answerAs is Answer for a session of the owner, by a user who may answer for them.
func (s *Service) answerAs(
	ctx context.Context, ownerID string, caller domain.Caller, sessionID domain.SessionID, answer domain.Answer,
) (domain.AnswerAck, error) {
	run, err := s.cfg.Store.SessionRun(ctx, ownerID, sessionID)
	if err != nil {
		return domain.AnswerAck{}, err
	}

	return s.AnswerIn(ctx, caller, run, answer)
}

// AnswerIn resolves a question of a session; of several answers one wins. The caller was
// found to own the session, or to be one who may answer for its owner.
func (s *Service) AnswerIn(
	ctx context.Context,
	caller domain.Caller,
	run domain.SessionRun,
	answer domain.Answer,
) (domain.AnswerAck, error) {
	question, open, err := s.cfg.Store.Question(ctx, run.OwnerID, run.SessionID, answer.ToolCallID)
	if err != nil {
		return domain.AnswerAck{}, err
	}

	ack := domain.AnswerAck{QuestionID: question.ID, ChatID: question.ChatID}
	if !open {
		return ack, nil
	}

	var asked []questions.Question
	if err := json.Unmarshal(question.Questions, &asked); err != nil {
		return ack, err
	}

	// Rules of a user are for their own unrestricted credentials, as over REST.
	if caller.User.ID != run.OwnerID || len(caller.Scopes) > 0 {
		answer = questions.WithoutAlways(asked, answer)
	}

	result, err := questions.CheckAnswer(asked, answer)
	if err != nil {
		return ack, err
	}

	text := domain.CleanText(string(result))
	if ack.Resolved, err = s.cfg.Store.ResolveQuestion(ctx, run.OwnerID, question, caller.User.ID, text); err != nil {
		return ack, err
	}

	if ack.Resolved {
		run.Open = true

		s.afterwards(ctx, func(ctx context.Context) { s.wake(ctx, run) })
	}

	return ack, nil
}

// Stop reads a session as its owner's and stops its chat.
func (s *Service) Stop(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (bool, error) {
	run, err := s.cfg.Store.SessionRun(ctx, caller.User.ID, sessionID)
	if err != nil {
		return false, err
	}

	return s.StopIn(ctx, caller, run, andQueue)
}

// StopIn interrupts the running chat of a session, or the one that waits for an answer. The
// caller was found to own the session.
func (s *Service) StopIn(ctx context.Context, caller domain.Caller, run domain.SessionRun, andQueue bool) (bool, error) {
	stopped, err := s.cfg.Store.RequestStop(ctx, caller.User.ID, run.SessionID, andQueue)
	if err != nil {
		return false, err
	}

	s.followStop(ctx, run, stopped)

	return stopped.Stopped, nil
}

// StopChat stops one chat, running, waiting for an answer or queued. Other chats of its
// session continue.
func (s *Service) StopChat(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, chatID domain.ChatID) error {
	run, err := s.cfg.Store.SessionRun(ctx, caller.User.ID, sessionID)
	if err != nil {
		return err
	}

	stopped, err := s.cfg.Store.RequestChatStop(ctx, caller.User.ID, sessionID, chatID)
	if err != nil {
		return err
	}

	s.followStop(ctx, run, stopped)

	return nil
}

// followStop announces a stop that was stored.
func (s *Service) followStop(ctx context.Context, run domain.SessionRun, stopped domain.Stopped) {
	if stopped.ChatID != "" {
		s.broadcastStop(ctx, run.SessionID, stopped.ChatID) // before it returns: it is the latency-critical path
		s.afterwards(ctx, func(ctx context.Context) { s.signalStop(ctx, run.SessionID, stopped.ChatID) })
	}

	if stopped.Wake {
		run.Open = true

		s.afterwards(ctx, func(ctx context.Context) { s.wake(ctx, run) })
	}
}

// Compact requests a compaction of the session's history.
func (s *Service) Compact(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (string, error) {
	return s.cfg.Compactions.Request(ctx, caller, sessionID)
}

func (s *Service) broadcastStop(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID) {
	if err := s.cfg.Bus.AnnounceStop(ctx, chatID, 0); err != nil {
		s.cfg.Logger.Warn(
			"failed to broadcast a stop, falling back to the workflow signal", "session_id", sessionID, "chat_id", chatID, "error", err)
	}
}

func (s *Service) signalStop(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID) {
	if err := s.cfg.Runs.Stop(ctx, sessionID, chatID); err != nil {
		s.cfg.Logger.Warn("failed to signal a stop to the run, retrying", "session_id", sessionID, "chat_id", chatID, "error", err)
	}
}

func (s *Service) wake(ctx context.Context, run domain.SessionRun) {
	if err := s.cfg.Runs.Wake(ctx, run); err != nil {
		s.cfg.Logger.Warn("failed to wake the run, retrying", "session_id", run.SessionID, "error", err)
	}
}

// afterwardsTimeout bounds the work that follows a commit.
const afterwardsTimeout = 30 * time.Second

// afterwards runs what the client need not wait for, also when the client
// disconnects.
func (s *Service) afterwards(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwardsTimeout)
	go func() {
		defer cancel()

		do(ctx)
	}()
}
