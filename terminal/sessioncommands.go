package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// listedChoices are so many sessions or messages that one is chosen from.
const listedChoices = 20

// chooseSession lists the sessions that changed last, and goes on with one of them.
func (c *conversation) chooseSession(ctx context.Context, _ string) error {
	var sessions []Session

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		sessions, err = c.client.Sessions(ctx)
		return err
	})
	if err != nil {
		return err
	}

	if len(sessions) == 0 {
		c.printer.notify(dim, "there is no session yet: send a message")
		return nil
	}

	sessions = sessions[:min(len(sessions), listedChoices)]

	var text strings.Builder

	for i, s := range sessions {
		title := oneLine(s.Intent, 60)
		if title == "" {
			title = s.ID
		}

		fmt.Fprintf(&text, "  %2d  %s  %s\n", i+1, title, c.printer.paint(dim, Clean(s.Status)+", "+age(time.Since(s.UpdatedAt))+" ago"))
	}

	c.printer.ask(text.String())

	n, err := c.pick(ctx, len(sessions))
	if err != nil || n == 0 {
		return err
	}

	c.enter(sessions[n-1].ID)
	c.printer.notify(dim, "session “"+oneLine(sessions[n-1].Intent, 80)+"”")

	return c.join(ctx, sessions[n-1].Status)
}

// age is a time span in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}

	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// rewind lists the user's messages, newest first, and goes back to before one of them.
func (c *conversation) rewind(ctx context.Context, _ string) error {
	if c.needSession() {
		return nil
	}

	var checkpoints []Checkpoint

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		checkpoints, err = c.client.Checkpoints(ctx, c.session)
		return err
	})
	if err != nil {
		return err
	}

	checkpoints = slices.DeleteFunc(checkpoints, func(p Checkpoint) bool { return p.Kind != "user_turn" || p.Reverted })
	slices.SortFunc(checkpoints, func(a, b Checkpoint) int { return b.Sequence - a.Sequence })

	if len(checkpoints) == 0 {
		c.printer.notify(dim, "there is no message to go back to")
		return nil
	}

	checkpoints = checkpoints[:min(len(checkpoints), listedChoices)]

	var text strings.Builder
	for i, p := range checkpoints {
		fmt.Fprintf(&text, "  %2d  %s\n", i+1, oneLine(p.Label, 100))
	}

	c.printer.ask(text.String())

	n, err := c.pick(ctx, len(checkpoints))
	if err != nil || n == 0 {
		return err
	}

	err = c.attempt(ctx, func(ctx context.Context) error { return c.client.Rewind(ctx, c.session, checkpoints[n-1].ID) })
	if err != nil {
		return err
	}

	c.printer.notify(dim, "the conversation and its files are as they were before “"+oneLine(checkpoints[n-1].Label, 80)+"”")

	return nil
}

func (c *conversation) compact(ctx context.Context, _ string) error {
	if c.needSession() {
		return nil
	}

	c.printer.notify(dim, "summarising the older part of the history …")

	err := c.attempt(ctx, func(ctx context.Context) error { return c.client.Compact(ctx, c.session) })
	if err == nil {
		c.printer.notify(dim, "done")
	}

	return err
}

func (c *conversation) showTasks(ctx context.Context, _ string) error {
	if c.needSession() {
		return nil
	}

	var tasks []SessionTask

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		tasks, err = c.client.Tasks(ctx, c.session)
		return err
	})
	if err != nil {
		return err
	}

	if len(tasks) == 0 {
		c.printer.notify(dim, "the task list is empty")
		return nil
	}

	var text strings.Builder

	for _, task := range tasks {
		mark := map[string]string{"completed": "✓", "in_progress": "▸", "cancelled": "✗"}[task.Status]
		if mark == "" {
			mark = "·"
		}

		fmt.Fprintf(&text, "  %s %s\n", mark, oneLine(task.Subject, 100))
	}

	c.printer.ask(text.String())

	return nil
}

func (c *conversation) showCost(ctx context.Context, _ string) error {
	if c.needSession() {
		return nil
	}

	var u SessionUsage

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		u, err = c.client.Usage(ctx, c.session)
		return err
	})
	if err != nil {
		return err
	}

	cost := fmt.Sprintf("%.4f USD", u.Cost)
	if unpriced := u.Uncosted.Input + u.Uncosted.Output; unpriced > 0 {
		cost += fmt.Sprintf(", and %d tokens of models without a price", unpriced)
	}

	c.printer.ask(fmt.Sprintf(
		"  %d model calls · %d tokens in (%d of them cached) · %d tokens out · %s\n", u.Calls, u.Input, u.CacheRead, u.Output, cost,
	))

	return nil
}
