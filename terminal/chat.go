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

// Options say what `everloop chat` is to do.
type Options struct {
	Session  string // go on with this session
	Continue bool   // go on with the user's last session
	Model    string // model of a new session
	Mode     string // planning or executing; empty: the session's
	Headless bool   // show the result and nothing else
	Schema   json.RawMessage
	Steer    bool     // join the chat that runs, instead of waiting for its end
	Message  string   // empty: ask for messages, or only go on
	Answers  []string // to the open questions, in their order

	// Interactive says that a person sits at In.
	Interactive bool
	In          io.Reader
	Screen      *Screen // edits lines there, instead of reading them from In
	Out, Notes  io.Writer
	Style       Style
	// Interrupts are the user's Ctrl-C: the first one stops the chat, the second
	// one leaves.
	Interrupts <-chan struct{}
	// Patience is how long a service that went away is waited for; 0: 10 minutes.
	Patience time.Duration
}

// conversation is one run of the command.
type conversation struct {
	Options
	client  *Client
	printer *printer
	input   lines // nil: no user can be asked
	follow  *follower

	session string
	chat    string // the chat that is followed
	spoken  bool   // the service was reached before: a failure may pass
	lost    bool   // the loss of the connection was reported
	code    int    // how the last chat ended
}

// Run carries out the command and returns its exit code. Errors are written to
// Notes. ctx ends it without stopping the chat.
func Run(ctx context.Context, client *Client, options Options) int {
	if options.Patience == 0 {
		options.Patience = defaultPatience
	}

	if len(options.Schema) > 0 {
		options.Headless = true
	}

	c := &conversation{Options: options, client: client, printer: newPrinter(options.Out, options.Notes, options.Style)}
	switch {
	case options.Interactive && options.Screen != nil:
		c.input = newEditor(*options.Screen, options.Interrupts)
	case options.Interactive:
		c.input = newInput(options.In, c.printer.ask, options.Interrupts)
	}

	err := c.run(ctx)
	if c.follow != nil {
		c.follow.close()
	}

	if errors.Is(err, errEnd) {
		err = nil
	}

	if err != nil {
		c.code = exitCode(err)
		if c.code != ExitLeft || !c.Headless {
			c.printer.notify(red, "everloop: "+reason(err))
		}
	}

	c.farewell()

	return c.code
}

// reason is an error in words for the user.
func reason(err error) string {
	if errors.Is(err, context.Canceled) {
		return errLeft.Message
	}

	return Clean(err.Error())
}

// farewell says how to go on.
func (c *conversation) farewell() {
	if c.session == "" || c.Headless && c.code == ExitCompleted {
		return
	}

	command := "everloop chat --session " + Clean(c.session)
	if c.code == ExitQuestion {
		c.printer.notify(
			"",
			"Answer in a terminal:  "+command+"\nor from a script:      "+command+
				` --answer "1"   (once for each question, in order; numbers, a label or text)`,
		)

		return
	}

	c.printer.notify(dim, "session "+Clean(c.session)+" · go on: "+command)
}

func (c *conversation) run(ctx context.Context) error {
	resumed, err := c.resume(ctx)
	if err != nil {
		return err
	}

	if c.Message == "" && resumed.ID != "" {
		if err := c.join(ctx, resumed.Status); err != nil {
			return err
		}
	}

	if c.Message != "" {
		return c.say(ctx, c.Message)
	}

	if !c.Interactive {
		if c.session == "" {
			return &Fault{Code: ExitTrouble, Message: "give a message, or - to read it from standard input"}
		}

		return nil
	}

	if c.Headless || len(c.Answers) > 0 {
		return nil
	}

	return c.prompt(ctx)
}

// join follows what goes on in the session, or answers what it waits for.
func (c *conversation) join(ctx context.Context, status string) error {
	switch status {
	case "waiting_for_input":
		return c.continueWith(ctx)
	case "running":
		return c.attach(ctx)
	}

	if len(c.Answers) > 0 {
		return &Fault{Code: ExitTrouble, Message: "the session waits for no answer (it is " + Clean(status) + ")"}
	}

	if !c.Interactive {
		return &Fault{
			Code: ExitTrouble, Message: "the session is " + Clean(status) + ", so there is nothing to follow: give a message",
		}
	}

	return nil
}

// resume finds the session to go on with; an empty one for a new session.
func (c *conversation) resume(ctx context.Context) (found Session, err error) {
	if c.Session == "" && !c.Continue {
		return Session{}, nil
	}

	err = c.attempt(ctx, func(ctx context.Context) (err error) {
		if c.Continue {
			found, err = c.client.LastSession(ctx)
		} else {
			found, err = c.client.Session(ctx, c.Session)
		}

		return err
	})
	if err != nil {
		return Session{}, err
	}

	if c.Model != "" {
		return Session{}, &Fault{Code: ExitTrouble, Message: "a session keeps its model: --model is for new ones"}
	}

	c.session, c.spoken = found.ID, true
	if !c.Headless {
		if title := oneLine(found.Intent, 80); title != "" {
			c.printer.notify(dim, "session “"+title+"”")
		}
	}

	return found, nil
}

// prompt asks for messages until the user has none.
func (c *conversation) prompt(ctx context.Context) error {
	if c.session == "" {
		if _, err := c.client.LastSession(ctx); err != nil { // a wrong key is known before anything is typed
			if _, none := errors.AsType[*Fault](err); !none {
				return err
			}
		}

		c.spoken = true
		c.printer.notify(dim, "Everloop. Ctrl-C stops a chat, Ctrl-D leaves, /help lists commands.")
	}

	for {
		c.rest()
		c.printer.ask("\n")

		text, err := c.input.line(ctx, c.printer.paint(cyan, "> "))
		if errors.Is(err, errEnd) || errors.Is(err, errLeft) {
			c.printer.ask("\n")
			c.code = ExitCompleted // the user has seen how each chat ended

			return nil
		}

		if err != nil {
			return err
		}

		if text == "" {
			continue
		}

		if isCommand(text) {
			err = c.carryOut(ctx, text)
		} else {
			err = c.say(ctx, asMessage(text))
		}

		if errors.Is(err, errEnd) {
			c.code = ExitCompleted
			return nil
		}

		if p, refused := errors.AsType[*Problem](err); refused && p.Status >= 400 && p.Status < 500 &&
			p.Status != http.StatusUnauthorized && p.Status != http.StatusNotFound {
			c.printer.notify(red, reason(err)) // the next message or command may be better
			continue
		}

		if err != nil {
			return err
		}
	}
}

// rest closes the stream while a person thinks: nothing would read it.
func (c *conversation) rest() {
	if c.follow != nil {
		c.follow.close()
	}
}

// listen makes sure that nothing of what happens from now on is missed. With all,
// what happened before comes too.
func (c *conversation) listen(ctx context.Context, all bool) error {
	if c.follow != nil && c.follow.begun() {
		return nil
	}

	c.follow = &follower{
		client: c.client, session: c.session, patience: c.Patience,
		lost: func(error) {
			if !c.lost {
				c.lost = true
				c.printer.notify(yellow, "the connection was lost; the chat goes on, and this comes back to it")
			}
		},
		found: func() {
			if c.lost {
				c.lost = false
				c.printer.notify(dim, "connected again")
			}
		},
		gap: func() { c.printer.notify(yellow, "some of what happened meanwhile is no longer kept") },
	}
	err := c.attempt(ctx, func(ctx context.Context) error { return c.follow.start(ctx, all) })
	c.spoken = c.spoken || err == nil

	return err
}

// attempt is again for everything during which an interrupt means to leave.
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

	err := c.again(ctx, try)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}

	cancel(nil)
	<-watched // it must not take an interrupt that is meant for what follows

	return err
}

// again repeats what may work in a moment, once the service is known to exist.
func (c *conversation) again(ctx context.Context, try func(context.Context) error) error {
	began, pause := time.Now(), firstPause

	for {
		err := try(ctx)
		if err == nil || !c.spoken || !passing(err) || time.Since(began) > c.Patience {
			return err
		}

		if err := wait(ctx, pause); err != nil {
			return err
		}

		pause = min(2*pause, longPause)
	}
}

// say sends a message and shows the chat that it starts.
func (c *conversation) say(ctx context.Context, text string) error {
	if c.session == "" {
		err := c.attempt(ctx, func(ctx context.Context) (err error) {
			c.session, err = c.client.CreateSession(ctx, c.Model)
			return err
		})
		if err != nil {
			return err
		}

		c.spoken = true
	}

	if err := c.listen(ctx, false); err != nil {
		return err
	}

	send := Send{
		Message: text, Mode: c.Mode, Headless: c.Headless, OutputSchema: c.Schema, ClientMessageID: newMessageID(),
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
	c.follow.anchor = func(e *Event) bool { return e.ChatID == accepted.ChatID && anchors(e, accepted) }

	queued := accepted.Position > 0
	if queued && !c.Headless {
		c.printer.notify(
			dim, fmt.Sprintf("a chat is running; this message is number %d in the queue (--steer would join it)", accepted.Position),
		)
	}

	return c.watch(ctx, queued)
}

// anchors reports whether an event is the first that belongs to a message: the
// start of its chat, or its own turn in a chat that ran already.
func anchors(e *Event, accepted Accepted) bool {
	if accepted.DeliveryApplied == "steer" {
		return e.TurnID == accepted.TurnID
	}

	return true
}

// attach shows the chat that runs, from its start.
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

// newMessageID names a message, so that it counts once however often it is sent.
func newMessageID() string { return "terminal-" + rand.Text() }
