package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// watch shows the chat to its end and prompts for answers to its questions.
func (c *conversation) watch(ctx context.Context, queued bool) error {
	for {
		end, err := c.showChat(ctx, queued)
		if err != nil {
			return err
		}

		if end.FinishReason != "awaiting_answer" {
			return c.finish(end)
		}

		if resumed, err := c.answerAll(ctx); err != nil || !resumed {
			return err
		}

		queued = false
	}
}

// finish sets the exit code and prints the result of a headless chat.
func (c *conversation) finish(end Event) error {
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

// printResult prints the result of a headless chat: text unchanged, values as JSON.
func (c *conversation) printResult(end Event) error {
	var result struct{ Output json.RawMessage }
	if json.Unmarshal(end.Result, &result) != nil || len(result.Output) == 0 {
		return nil // the chat did not complete
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

// showChat shows events until the end of the chat, which it returns.
func (c *conversation) showChat(ctx context.Context, queued bool) (Event, error) {
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

// handleInterrupts stops the chat at the first interrupt and exits at the second. A queued
// message stays in the queue.
func (c *conversation) handleInterrupts(ctx context.Context, exit context.CancelCauseFunc, started <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-c.Interrupts:
	}

	select {
	case <-started:
	default:
		exit(&Fault{Code: ExitLeft, Message: "exited: the message stays in the queue"})
		return
	}

	c.printer.notify(yellow, "stopping the chat … (Ctrl-C again exits)")

	go func() {
		err := c.retry(ctx, func(ctx context.Context) error { return c.client.Stop(ctx, c.session) })
		if err != nil && ctx.Err() == nil {
			exit(fmt.Errorf("failed to stop the chat: %w", err))
		}
	}()

	select {
	case <-ctx.Done():
	case <-c.Interrupts:
		exit(errLeft)
	}
}

// answerAll answers every open question. It reports whether the chat continues.
func (c *conversation) answerAll(ctx context.Context) (resumed bool, err error) {
	c.disconnect()

	var open []Asked

	err = c.attempt(ctx, func(ctx context.Context) (err error) {
		open, err = c.client.Pending(ctx, c.session)
		return err
	})
	if err != nil {
		return false, err
	}

	for _, call := range open {
		resolved, err := c.answer(ctx, call)
		if err != nil {
			return false, err
		}

		resumed = resumed || resolved
	}

	if resumed {
		return true, nil
	}

	return c.answeredElsewhere(ctx)
}

// answeredElsewhere handles a chat whose questions another client resolved. The chat continues
// only if it runs; it may have ended before the stream started, with the next chat of the
// queue running.
func (c *conversation) answeredElsewhere(ctx context.Context) (resumed bool, err error) {
	session, err := c.client.Session(ctx, c.session)
	if err != nil {
		return false, err
	}

	running := session.Status == "running" && c.chat != ""

	if end := session.LastEnd; end != nil && end.ChatID == c.chat {
		if end.FinishReason != "awaiting_answer" {
			end.Name = eventChatEnd

			if !c.Headless {
				c.printer.notify(dim, "the question was resolved elsewhere, and the chat has ended")
				c.printer.event(end)
			}

			return false, c.finish(*end)
		}

		if running {
			return true, nil
		}
	} else if running { // a queued chat was cancelled after this one paused
		newest, err := c.client.lastChat(ctx, c.session)
		if err != nil || newest == c.chat {
			return err == nil, err
		}
	}

	c.printer.notify(dim, "the question was resolved elsewhere; the session is "+Clean(session.Status))

	return false, nil
}

// answer prompts for the answers to one call until the service accepts them. It reports whether
// they resolved the question.
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
		if p, ok := errors.AsType[*Problem](err); ok && p.Code == "invalid_answer" && !scripted {
			c.printer.notify(red, errorText(err))
			continue
		}

		if err != nil {
			return false, err
		}

		if accepted.ChatID != "" {
			c.chat = accepted.ChatID
		}

		c.follow.anchor = func(e *Event) bool { return e.Name == eventResolved && e.QuestionID == accepted.QuestionID }

		// A retried answer can lose to its own first copy.
		if resolved = accepted.Resolved || tries > 1; !resolved {
			c.printer.notify(dim, "the question was already resolved")
		}

		return resolved, nil
	}
}

// collect returns an answer to each question of a call.
func (c *conversation) collect(ctx context.Context, call Asked) (Answer, error) {
	answer := Answer{ToolCallID: call.ToolCallID}

	for i, question := range call.Questions {
		if len(c.Answers) > 0 {
			options, custom, err := question.parse(c.Answers[0])
			if err != nil {
				return answer, usageError(fmt.Sprintf("--answer %d of %q: %s", i+1, oneLine(question.Question, 60), err))
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

		options, custom, err := c.askUser(ctx, question)
		if err != nil {
			return answer, err
		}

		answer.put(i, options, custom)
	}

	return answer, nil
}

// askUser prompts until the user types a valid answer.
func (c *conversation) askUser(ctx context.Context, question Question) (options []int, custom string, err error) {
	for {
		typed, err := c.input.line(ctx, question.prompt())
		if errors.Is(err, errEnd) || errors.Is(err, errLeft) {
			return nil, "", &Fault{Code: ExitQuestion, Message: "exited: the question stays open"}
		}

		if err != nil {
			return nil, "", err
		}

		if options, custom, err = question.parse(typed); err == nil {
			return options, custom, nil
		}

		c.printer.notify(yellow, "  "+err.Error())
	}
}
