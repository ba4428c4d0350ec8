// Package inbox takes what clients say to a session, by whichever door: it
// checks it, makes it durable and wakes the session's run. The commit is the
// promise; everything after it may fail and is made good by the Janitor. It
// knows neither transports nor how a run works.
package inbox

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
)

// Records keep messages, questions and stops.
type Records interface {
	SessionRun(ctx context.Context, ownerID, sessionID string) (domain.SessionRun, error)
	Enqueue(ctx context.Context, ownerID string, send domain.Send) (domain.Enqueued, error)
	RequestStop(ctx context.Context, ownerID, sessionID string, andQueue bool) (domain.Stopped, error)
	Question(ctx context.Context, ownerID, sessionID, toolCallID string) (q domain.Question, open bool, err error)
	ResolveQuestion(ctx context.Context, ownerID string, q domain.Question, by, result string) (bool, error)
}

// Runs starts and wakes the runs of sessions.
type Runs interface {
	Wake(ctx context.Context, s domain.SessionRun) error
	Stop(ctx context.Context, sessionID, chatID string) error
}

// Bus tells running work at once that its chat was stopped.
type Bus interface {
	AnnounceStop(ctx context.Context, chatID string, attempt int) error
}

// Models knows which models there are.
type Models interface {
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}

// Images keeps the pictures of messages as objects.
type Images interface {
	Keep(ctx context.Context, sessionID string, dataURL string) (object string, err error)
}

// Desk is where both doors hand in what clients say.
type Desk struct {
	Records Records
	Runs    Runs
	Bus     Bus
	Models  Models
	Images  Images
	History History
	Logger  *slog.Logger

	Compactions *Compactions
}

// Send makes a message durable and has its chat run (decisions.md section 3).
func (d *Desk) Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error) {
	if len(send.OutputSchema) > 0 {
		if _, err := domain.CompileSchema(send.OutputSchema); err != nil {
			return domain.SendAck{}, err
		}
		send.Headless = true
	}
	run, err := d.Records.SessionRun(ctx, caller.User.ID, send.SessionID)
	if err != nil {
		return domain.SendAck{}, err
	}
	if run.Model != nil {
		if _, err := d.Models.Resolve(ctx, *run.Model); domain.HasCode(err, domain.CodeUnknownModel) {
			return domain.SendAck{}, err
		}
	}
	if send.Message, err = d.keep(ctx, send.SessionID, send.Message); err != nil {
		return domain.SendAck{}, err
	}
	if send.Whatif != nil {
		return d.whatif(ctx, caller, send)
	}
	taken, err := d.Records.Enqueue(ctx, caller.User.ID, send)
	if err != nil {
		return domain.SendAck{}, err
	}
	d.afterwards(ctx, func(ctx context.Context) {
		if taken.StopChat != "" {
			d.tellStop(ctx, send.SessionID, taken.StopChat)
		}
		d.wake(ctx, run)
	})
	return taken.Ack, nil
}

// keep makes a message fit for the records: clean text, pictures as objects.
func (d *Desk) keep(ctx context.Context, sessionID string, parts []domain.ContentPart) ([]domain.ContentPart, error) {
	kept := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		p.Text = domain.CleanText(p.Text)
		if p.ImageURL != nil {
			object, err := d.Images.Keep(ctx, sessionID, p.ImageURL.URL)
			if err != nil {
				return nil, err
			}
			p.ImageURL = &domain.ImageURL{URL: object}
		}
		kept[i] = p
	}
	return kept, nil
}

// Answer resolves a question; of several answers one wins (decisions.md 8.2).
func (d *Desk) Answer(ctx context.Context, caller domain.Caller, sessionID string, answer domain.Answer) (domain.AnswerAck, error) {
	question, open, err := d.Records.Question(ctx, caller.User.ID, sessionID, answer.ToolCallID)
	if err != nil {
		return domain.AnswerAck{}, err
	}
	ack := domain.AnswerAck{QuestionID: question.ID, ChatID: question.ChatID}
	if !open {
		return ack, nil
	}
	var asked []tools.Question
	if err := json.Unmarshal(question.Questions, &asked); err != nil {
		return ack, err
	}
	result, err := tools.CheckAnswer(asked, answer)
	if err != nil {
		return ack, err
	}
	if ack.Resolved, err = d.Records.ResolveQuestion(ctx, caller.User.ID, question, caller.User.ID, domain.CleanText(string(result))); err != nil {
		return ack, err
	}
	if ack.Resolved {
		run, err := d.Records.SessionRun(ctx, caller.User.ID, sessionID)
		if err != nil {
			return ack, err
		}
		d.afterwards(ctx, func(ctx context.Context) { d.wake(ctx, run) })
	}
	return ack, nil
}

// Stop interrupts the running chat, or the one that waits for an answer
// (decisions.md section 4).
func (d *Desk) Stop(ctx context.Context, caller domain.Caller, sessionID string, andQueue bool) (bool, error) {
	stopped, err := d.Records.RequestStop(ctx, caller.User.ID, sessionID, andQueue)
	if err != nil {
		return false, err
	}
	if stopped.ChatID != "" {
		// The bus first and at once: this is what the client waits for.
		if err := d.Bus.AnnounceStop(ctx, stopped.ChatID, 0); err != nil {
			d.Logger.Warn("stop not announced; the run will hear of it", "session_id", sessionID, "chat_id", stopped.ChatID, "error", err)
		}
		d.afterwards(ctx, func(ctx context.Context) { d.signalStop(ctx, sessionID, stopped.ChatID) })
	}
	if stopped.Wake {
		run, err := d.Records.SessionRun(ctx, caller.User.ID, sessionID)
		if err != nil {
			return true, err
		}
		d.afterwards(ctx, func(ctx context.Context) { d.wake(ctx, run) })
	}
	return stopped.Stopped, nil
}

// Compact asks for a compaction of the session's history (decisions.md section 5).
func (d *Desk) Compact(ctx context.Context, caller domain.Caller, sessionID string) (string, error) {
	return d.Compactions.Request(ctx, caller, sessionID)
}

func (d *Desk) tellStop(ctx context.Context, sessionID, chatID string) {
	if err := d.Bus.AnnounceStop(ctx, chatID, 0); err != nil {
		d.Logger.Warn("stop not announced; the run will hear of it", "session_id", sessionID, "chat_id", chatID, "error", err)
	}
	d.signalStop(ctx, sessionID, chatID)
}

func (d *Desk) signalStop(ctx context.Context, sessionID, chatID string) {
	if err := d.Runs.Stop(ctx, sessionID, chatID); err != nil {
		d.Logger.Warn("run not told of the stop yet; the janitor will", "session_id", sessionID, "chat_id", chatID, "error", err)
	}
}

func (d *Desk) wake(ctx context.Context, run domain.SessionRun) {
	if err := d.Runs.Wake(ctx, run); err != nil {
		d.Logger.Warn("run not woken yet; the janitor will", "session_id", run.SessionID, "error", err)
	}
}

// afterwardsTimeout bounds what follows a promise that was already made.
const afterwardsTimeout = 30 * time.Second

// afterwards does what the client need not wait for, and does not lose it when
// the client goes away.
func (d *Desk) afterwards(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwardsTimeout)
	go func() {
		defer cancel()
		do(ctx)
	}()
}
