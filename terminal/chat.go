// Package terminal is Everloop's terminal client. It sends messages, streams chats, prompts for
// answers to the agent's questions and reconnects. It depends only on the public interface,
// REST and server-sent events, and imports no package of the service: other clients can do the
// same.
package terminal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Options configure `everloop chat`.
type Options struct {
	Session  string // continue this session
	Continue bool   // continue the user's last session
	Model    string // model of a new session
	Mode     string // planning or executing; empty: the session's
	Headless bool   // print only the result
	Schema   json.RawMessage
	Steer    bool     // join the running chat instead of waiting for its end
	Message  string   // empty: prompt for messages, or only follow the session
	Answers  []string // to the open questions, in their order

	Interactive bool // a user sits at In
	In          io.Reader
	Out, Notes  io.Writer
	Style       Style
	// Interrupts receives the user's Ctrl-C: the first stops the chat, the second exits.
	Interrupts <-chan struct{}
	// Patience is how long to retry while the service is unavailable; 0: 10 minutes.
	Patience time.Duration
}

// conversation is one run of the command.
type conversation struct {
	Options
	client  *Client
	printer *printer
	input   *input // nil: there is no user
	follow  *follower

	session string
	chat    string // the followed chat
	reached bool   // the service answered before: failures can be transient
	lost    bool   // the loss of the connection was reported
	code    int    // exit code of the last chat
}

// Run runs the command and returns its exit code. It writes errors to Notes. The end of ctx
// does not stop the chat.
func Run(ctx context.Context, client *Client, options Options) int {
	if options.Patience == 0 {
		options.Patience = 10 * time.Minute
	}

	options.Headless = options.Headless || len(options.Schema) > 0

	c := &conversation{Options: options, client: client, printer: newPrinter(options.Out, options.Notes, options.Style)}
	if options.Interactive {
		c.input = newInput(options.In, c.printer.ask, options.Interrupts)
	}

	err := c.run(ctx)
	c.disconnect()

	if err != nil {
		c.code = exitCode(err)
		if c.code != ExitLeft || !c.Headless {
			c.printer.notify(red, "everloop: "+errorText(err))
		}
	}

	c.printHint()

	return c.code
}

// errorText returns an error as text for the user.
func errorText(err error) string {
	if errors.Is(err, context.Canceled) {
		return errLeft.Message
	}
	return Clean(err.Error())
}

// printHint prints the command that continues the session.
func (c *conversation) printHint() {
	if c.session == "" || c.Headless && c.code == ExitCompleted {
		return
	}
	command := "everloop chat --session " + Clean(c.session)
	if c.code == ExitQuestion {
		c.printer.notify("", "Answer in a terminal:  "+command+"\nor from a script:      "+command+
			` --answer "1"   (once for each question, in order; numbers, a label or text)`)
		return
	}
	c.printer.notify(dim, "session "+Clean(c.session)+" · continue: "+command)
}

func (c *conversation) run(ctx context.Context) error {
	resumed, err := c.resume(ctx)
	if err != nil {
		return err
	}

	if c.Message != "" {
		return c.say(ctx, c.Message)
	}

	if resumed.ID != "" {
		if err := c.join(ctx, resumed.Status); err != nil {
			return err
		}
	}

	switch {
	case !c.Interactive && c.session == "":
		return usageError("message is required; - reads it from standard input")
	case !c.Interactive || c.Headless || len(c.Answers) > 0:
		return nil
	}

	return c.prompt(ctx)
}

// join follows the running chat of a session, or answers its open questions.
func (c *conversation) join(ctx context.Context, status string) error {
	switch status {
	case "waiting_for_input":
		if resumed, err := c.answerAll(ctx); err != nil || !resumed {
			return err
		}

		return c.watch(ctx, false)
	case "running":
		return c.attach(ctx)
	}

	switch {
	case len(c.Answers) > 0:
		return usageError("--answer: the session has no open question (it is " + Clean(status) + ")")
	case !c.Interactive:
		return usageError("the session is " + Clean(status) + ", so there is nothing to follow: send a message")
	}

	return nil
}

// resume returns the session to continue; an empty one for a new session.
func (c *conversation) resume(ctx context.Context) (session Session, err error) {
	if c.Session == "" && !c.Continue {
		return Session{}, nil
	}

	err = c.attempt(ctx, func(ctx context.Context) (err error) {
		if c.Continue {
			session, err = c.client.LastSession(ctx)
		} else {
			session, err = c.client.Session(ctx, c.Session)
		}

		return err
	})
	if err != nil {
		return Session{}, err
	}

	if c.Model != "" {
		return Session{}, usageError("--model is for new sessions: a session keeps its model")
	}

	c.session, c.reached = session.ID, true

	if title := oneLine(session.Intent, 80); title != "" && !c.Headless {
		c.printer.notify(dim, "session “"+title+"”")
	}

	return session, nil
}

// prompt reads messages until the end of the input.
func (c *conversation) prompt(ctx context.Context) error {
	if c.session == "" {
		// Reports a wrong key before the user types anything.
		if _, err := c.client.LastSession(ctx); err != nil && !errors.Is(err, errNoSession) {
			return err
		}

		c.reached = true
		c.printer.notify(dim, "Everloop. Ctrl-C stops a chat, Ctrl-D exits.")
	}

	for {
		c.disconnect()
		c.printer.ask("\n")

		text, err := c.input.line(ctx, c.printer.paint(cyan, "> "))
		if errors.Is(err, errEnd) || errors.Is(err, errLeft) {
			c.printer.ask("\n")
			c.code = ExitCompleted // the user saw how each chat ended

			return nil
		}

		if err == nil && text != "" {
			err = c.say(ctx, text)
		}

		if p, ok := errors.AsType[*Problem](err); ok && p.Status >= 400 && p.Status < 500 &&
			p.Status != http.StatusUnauthorized && p.Status != http.StatusNotFound {
			c.printer.notify(red, errorText(err)) // the next message can be accepted
			continue
		}

		if err != nil {
			return err
		}
	}
}

// disconnect closes the stream.
func (c *conversation) disconnect() {
	if c.follow != nil {
		c.follow.close()
	}
}

// listen starts to follow the session: no later event is missed. With all, it starts at the
// first stored event.
func (c *conversation) listen(ctx context.Context, all bool) error {
	if c.follow != nil && c.follow.started() {
		return nil
	}

	c.follow = &follower{
		client: c.client, session: c.session, patience: c.Patience,
		lost: func(error) {
			if !c.lost {
				c.lost = true
				c.printer.notify(yellow, "the connection was lost; the chat continues, reconnecting …")
			}
		},
		connected: func() {
			if c.lost {
				c.lost = false
				c.printer.notify(dim, "connected again")
			}
		},
		gap: func() { c.printer.notify(yellow, "some events of the meantime are no longer stored") },
	}
	err := c.attempt(ctx, func(ctx context.Context) error { return c.follow.start(ctx, all) })
	c.reached = c.reached || err == nil

	return err
}

// attempt is retry for calls during which an interrupt means to exit.
func (c *conversation) attempt(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})

	go func() {
		defer close(watched)

		select {
		case <-c.Interrupts:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()

	err := c.retry(ctx, try)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}

	cancel(nil)
	<-watched // it must not receive an interrupt that is meant for the next call

	return err
}

// retry retries transient failures once the service has answered.
func (c *conversation) retry(ctx context.Context, try func(context.Context) error) error {
	if !c.reached {
		return try(ctx)
	}
	return retry(ctx, c.Patience, func(error) {}, try)
}

// say sends a message and shows its chat.
func (c *conversation) say(ctx context.Context, text string) error {
	if c.session == "" {
		err := c.attempt(ctx, func(ctx context.Context) (err error) {
			c.session, err = c.client.CreateSession(ctx, c.Model)
			return err
		})
		if err != nil {
			return err
		}

		c.reached = true
	}

	if err := c.listen(ctx, false); err != nil {
		return err
	}

	send := Send{
		Message: text, Mode: c.Mode, Headless: c.Headless, OutputSchema: c.Schema,
		ClientMessageID: "terminal-" + rand.Text(), // a retried message counts once
	}
	if c.Steer {
		send.Delivery = "steer"
	}

	var accepted Accepted

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		accepted, err = c.client.Send(ctx, c.session, send)
		return err
	})
	if err != nil {
		return err
	}

	c.chat = accepted.ChatID
	c.follow.anchor = func(e *Event) bool {
		return e.ChatID == accepted.ChatID && (accepted.DeliveryApplied != "steer" || e.TurnID == accepted.TurnID)
	}

	queued := accepted.Position > 0
	if queued && !c.Headless {
		c.printer.notify(dim, fmt.Sprintf(
			"a chat is running; this message is number %d in the queue (--steer would join it)", accepted.Position,
		))
	}

	return c.watch(ctx, queued)
}

// attach shows the running chat from its start.
func (c *conversation) attach(ctx context.Context) error {
	chat, err := c.client.lastChat(ctx, c.session)
	if err != nil || chat == "" {
		return err
	}
	c.chat = chat
	if err := c.listen(ctx, true); err != nil {
		return err
	}
	return c.watch(ctx, false)
}
