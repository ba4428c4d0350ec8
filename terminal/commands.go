package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// promptCommand is something that is done at the prompt instead of sending a message.
type promptCommand struct {
	name, argument, help string

	run func(c *conversation, ctx context.Context, argument string) error
}

// promptCommands are listed by /help in this order.
func promptCommands() []promptCommand {
	return []promptCommand{
		{"help", "", "Show this list", (*conversation).showCommands},
		{"new", "", "Begin a new session", (*conversation).beginSession},
		{"sessions", "", "Choose another session", (*conversation).chooseSession},
		{"rewind", "", "Go back to before one of your messages, files included", (*conversation).rewind},
		{"compact", "", "Summarise the older part of the history", (*conversation).compact},
		{"plan", "", "Let the next messages only look and plan", (*conversation).plan},
		{"execute", "", "Let the next messages change things again", (*conversation).execute},
		{"model", "[NAME]", "List the models, or choose that of new sessions", (*conversation).chooseModel},
		{"tasks", "", "Show the task list of the session", (*conversation).showTasks},
		{"cost", "", "Show the tokens and the cost of the session", (*conversation).showCost},
		{"exit", "", "Leave; what runs goes on", func(*conversation, context.Context, string) error { return errEnd }},
	}
}

// isCommand distinguishes a command from a message. Two slashes begin a message that is to
// begin with one.
func isCommand(text string) bool {
	return strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") && !strings.Contains(text, "\n")
}

// asMessage is a text without the slash that keeps it from being a command.
func asMessage(text string) string {
	if strings.HasPrefix(text, "//") {
		return text[1:]
	}

	return text
}

// carryOut does what was typed at the prompt. What the service refuses is shown,
// and the next command may be better.
func (c *conversation) carryOut(ctx context.Context, text string) error {
	name, argument, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	for _, known := range promptCommands() {
		if known.name != name {
			continue
		}

		argument = strings.TrimSpace(argument)
		if argument != "" && known.argument == "" {
			c.printer.notify(red, "/"+name+" takes no argument")
			return nil
		}

		return known.run(c, ctx, argument)
	}

	c.printer.notify(red, "there is no command /"+Clean(name)+"; /help lists them, and //"+Clean(name)+" is a message")

	return nil
}

func (c *conversation) showCommands(context.Context, string) error {
	var text strings.Builder
	for _, known := range promptCommands() {
		fmt.Fprintf(&text, "  %-16s %s\n", strings.TrimSpace("/"+known.name+" "+known.argument), known.help)
	}

	text.WriteString("  //…              Send a message that begins with a slash\n")
	c.printer.ask(text.String())

	return nil
}

func (c *conversation) beginSession(context.Context, string) error {
	c.enter("")
	c.printer.notify(dim, "the next message begins a new session")

	return nil
}

// enter makes another session the one that is talked to; an empty one is a new one.
func (c *conversation) enter(session string) {
	c.rest()
	c.session, c.chat, c.follow, c.lost = session, "", nil, false
}

func (c *conversation) plan(context.Context, string) error {
	c.Mode = "planning"
	c.printer.notify(dim, "the next messages look and plan, and change nothing; /execute ends this")

	return nil
}

func (c *conversation) execute(context.Context, string) error {
	c.Mode = "executing"
	c.printer.notify(dim, "the next messages may change things")

	return nil
}

func (c *conversation) chooseModel(ctx context.Context, name string) error {
	var models Models

	err := c.attempt(ctx, func(ctx context.Context) (err error) {
		models, err = c.client.Models(ctx)
		return err
	})
	if err != nil {
		return err
	}

	chosen := c.Model
	if chosen == "" {
		chosen = models.Default
	}

	if name == "" {
		var text strings.Builder

		for _, model := range models.Models {
			mark := " "
			if model.ID == chosen {
				mark = "*"
			}

			fmt.Fprintf(&text, "  %s %s  %s\n", mark, Clean(model.ID), c.printer.paint(dim, Clean(model.Name)))
		}

		c.printer.ask(text.String())

		return nil
	}

	for _, model := range models.Models {
		if model.ID == name {
			c.Model = name
			c.printer.notify(dim, "new sessions use "+Clean(name)+"; a session keeps its model, so begin one with /new")

			return nil
		}
	}

	c.printer.notify(red, "there is no model "+Clean(name)+"; /model lists them")

	return nil
}

// needSession says that a command has nothing to work on.
func (c *conversation) needSession() bool {
	if c.session != "" {
		return false
	}

	c.printer.notify(yellow, "there is no session yet: send a message, or choose one with /sessions")

	return true
}

// pick asks for the number of one of so many choices; 0 is none.
func (c *conversation) pick(ctx context.Context, count int) (int, error) {
	for {
		typed, err := c.input.line(ctx, fmt.Sprintf("number 1 to %d, Enter for none: ", count))
		if errors.Is(err, errEnd) || errors.Is(err, errLeft) {
			c.printer.ask("\n")
			return 0, nil
		}

		if err != nil || typed == "" {
			return 0, err
		}

		var n int
		if _, err := fmt.Sscanf(typed+"\n", "%d\n", &n); err == nil && n >= 1 && n <= count {
			return n, nil
		}

		c.printer.notify(yellow, "there is no "+oneLine(typed, 40))
	}
}
