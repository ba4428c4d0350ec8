package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// watch shows the chat to its end, questions included.
func (c *conversation) watch(ctx context.Context, queued bool) error {
	for {
		end, err := c.toEnd(ctx, queued)
		if err != nil {
			return err
		}

		queued = false

		if end.FinishReason != "awaiting_answer" {
			return c.ended(end)
		}

		goesOn, err := c.answerAll(ctx)
		if err != nil || !goesOn {
			return err
		}
	}
}

// continueWith answers the questions that a session waits for, and shows how the
// chat goes on.
func (c *conversation) continueWith(ctx context.Context) error {
	goesOn, err := c.answerAll(ctx)
	if err != nil || !goesOn {
		return err
	}

	return c.watch(ctx, false)
}

// ended takes the end of the chat for that of the command.
func (c *conversation) ended(end Event) error {
	c.code = ExitCompleted

	switch end.Status {
	case "failed":
		c.code = ExitFailed
	case "interrupted":
		c.code = ExitInterrupted
	}

	if !c.Headless {
		return nil
	}

	switch c.code {
	case ExitFailed:
		c.printer.notify(red, failureText(&end))
	case ExitInterrupted:
		c.printer.notify(yellow, "the chat was interrupted")
	}

	return c.printResult(end)
}

// printResult writes the result of a headless chat: text as it is, values as JSON.
func (c *conversation) printResult(end Event) error {
	var result struct {
		Output json.RawMessage `json:"output"`
	}
	if json.Unmarshal(end.Result, &result) != nil || len(result.Output) == 0 {
		return nil // a chat that did not complete has none
	}

	var text string
	if len(c.Schema) == 0 && json.Unmarshal(result.Output, &text) == nil {
		_, err := fmt.Fprintln(c.Out, text)
		return err
	}

	var indented bytes.Buffer
	if err := json.Indent(&indented, result.Output, "", "  "); err != nil {
		return err
	}

	_, err := fmt.Fprintln(c.Out, indented.String())

	return err
}

// toEnd shows events until the chat's end. The first interrupt stops the chat, the
// second one leaves; a message that is still queued is only left.
func (c *conversation) toEnd(ctx context.Context, queued bool) (Event, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	started := make(chan struct{})
	if !queued {
		close(started)
	}

	go c.handleInterrupts(ctx, cancel, started)

	for {
		event, err := c.follow.next(ctx)
		if err != nil {
			return Event{}, err
		}

		if event.ChatID != c.chat && event.Name != eventUpdated {
			continue
		}

		if queued && event.ChatID == c.chat {
			queued = false

			close(started)
		}

		if !c.Headless {
			c.printer.event(&event)
		}

		if event.Name == eventChatEnd {
			return event, nil
		}
	}
}

// handleInterrupts turns interrupts into a stop, then into leaving.
func (c *conversation) handleInterrupts(ctx context.Context, leave context.CancelCauseFunc, started <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-c.Interrupts:
	}

	select {
	case <-started:
	default:
		leave(&Fault{Code: ExitLeft, Message: "left: the message stays in the queue"})
		return
	}

	c.printer.notify(yellow, "stopping the chat … (Ctrl-C again leaves it)")
	go func() {
		err := c.again(ctx, func(ctx context.Context) error {
			_, err := c.client.Stop(ctx, c.session)
			return err
		})
		if err != nil && ctx.Err() == nil {
			leave(fmt.Errorf("the chat could not be stopped: %w", err))
		}
	}()

	select {
	case <-ctx.Done():
	case <-c.Interrupts:
		leave(errLeft)
	}
}

// answerAll answers every open question. It reports whether the chat goes on.
func (c *conversation) answerAll(ctx context.Context) (goesOn bool, err error) {
	c.rest()

	var asked []Asked

	err = c.attempt(ctx, func(ctx context.Context) (err error) {
		asked, err = c.client.Pending(ctx, c.session)
		return err
	})
	if err != nil {
		return false, err
	}

	if len(asked) == 0 {
		return c.answeredElsewhere(ctx)
	}

	counted := false

	for _, call := range asked {
		resolved, err := c.answer(ctx, call)
		if err != nil {
			return false, err
		}

		counted = counted || resolved
	}

	if !counted {
		return c.answeredElsewhere(ctx)
	}

	return true, nil
}

// answeredElsewhere finds out what became of a chat whose questions another client
// resolved. It goes on only if it runs itself: its end comes then. It may have ended
// before the stream began, and the session run the next chat of its queue.
func (c *conversation) answeredElsewhere(ctx context.Context) (goesOn bool, err error) {
	session, err := c.client.Session(ctx, c.session)
	if err != nil {
		return false, err
	}

	running := session.Status == "running" && c.chat != ""

	if end := session.LastEnd; end != nil && end.ChatID == c.chat {
		if end.FinishReason != "awaiting_answer" {
			return false, c.endedElsewhere(*end)
		}

		if running {
			return true, nil
		}
	} else if running { // a chat that was taken off the queue has ended since
		newest, err := c.client.lastChat(ctx, c.session)
		if err != nil || newest == c.chat {
			return err == nil, err
		}
	}

	c.printer.notify(dim, "the question was resolved elsewhere; the session is "+Clean(session.Status))

	return false, nil
}

// endedElsewhere shows the end of a chat of which nothing else came.
func (c *conversation) endedElsewhere(end Event) error {
	end.Name = eventChatEnd

	if !c.Headless {
		c.printer.notify(dim, "the question was resolved elsewhere, and the chat has ended")
		c.printer.event(&end)
	}

	return c.ended(end)
}

// answer asks for the answers to one call until the service takes them. It reports
// whether they are the ones that count.
func (c *conversation) answer(ctx context.Context, call Asked) (resolved bool, err error) {
	for {
		scripted := len(c.Answers) > 0

		answer, err := c.collect(ctx, call)
		if err != nil {
			return false, err
		}

		if err := c.listen(ctx, false); err != nil {
			return false, err
		}

		var accepted Accepted

		tries := 0

		err = c.attempt(ctx, func(ctx context.Context) (err error) {
			tries++
			accepted, err = c.client.Answer(ctx, c.session, answer)

			return err
		})
		if p, refused := errors.AsType[*Problem](err); refused && p.Code == "invalid_answer" && !scripted {
			c.printer.notify(red, reason(err))
			continue
		}

		if err != nil {
			return false, err
		}

		if accepted.ChatID != "" {
			c.chat = accepted.ChatID
		}

		c.follow.anchor = func(e *Event) bool {
			return e.Name == eventResolved && e.QuestionID == accepted.QuestionID
		}
		// An answer that was sent again may have lost to its own first copy.
		if resolved = accepted.Resolved || tries > 1; !resolved {
			c.printer.notify(dim, "this question had been resolved already")
		}

		return resolved, nil
	}
}

// collect gets an answer to each question of a call.
func (c *conversation) collect(ctx context.Context, call Asked) (Answer, error) {
	answer := Answer{ToolCallID: call.ToolCallID}
	for i, question := range call.Questions {
		if len(c.Answers) > 0 {
			options, custom, err := question.parse(c.Answers[0])
			if err != nil {
				return answer, &Fault{
					Code: ExitTrouble, Message: fmt.Sprintf("--answer %d of %q: %s", i+1, oneLine(question.Question, 60), err),
				}
			}

			c.Answers = c.Answers[1:]

			answer.put(i, options, custom)

			continue
		}

		c.printer.ask(question.render(c.printer))

		if c.input == nil {
			for _, next := range call.Questions[i+1:] {
				c.printer.ask(next.render(c.printer))
			}

			return answer, errQuestion
		}

		for {
			typed, err := c.input.line(ctx, question.prompt())
			if errors.Is(err, errEnd) || errors.Is(err, errLeft) {
				return answer, &Fault{Code: ExitQuestion, Message: "left: the question stays open"}
			}

			if err != nil {
				return answer, err
			}

			options, custom, err := question.parse(typed)
			if err != nil {
				c.printer.notify(yellow, "  "+err.Error())
				continue
			}

			answer.put(i, options, custom)

			break
		}
	}

	return answer, nil
}
