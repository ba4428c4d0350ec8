package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"everloop/terminal"
)

// chatCmd sends messages to a running service and shows its answers.
type chatCmd struct {
	Message string `arg:"" optional:"" help:"The message; - reads it from standard input. Without one, messages are prompted for."`

	URL     string `name:"url" default:"http://127.0.0.1:8020" env:"EVERLOOP_URL" help:"Address of the service."`
	Key     string `env:"EVERLOOP_API_KEY" help:"API key; for a service on this machine, the first key in DATA_DIR when unset."`
	DataDir string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory of a service on this machine."`

	Session      string   `xor:"session" placeholder:"ID" help:"Continue this session."`
	Continue     bool     `xor:"session" short:"c" help:"Continue the session that changed last."`
	Model        string   `help:"Model of a new session; the service's default when unset."`
	Mode         string   `enum:",planning,executing" default:"" help:"planning or executing; the session's own when unset."`
	Headless     bool     `help:"Print only the result. Exit code: 0 completed, 1 failed, 2 interrupted, 3 waits for an answer, 4 unreachable or usage error."`
	OutputSchema string   `type:"existingfile" placeholder:"FILE" help:"JSON Schema that the result must match; implies --headless."`
	Steer        bool     `help:"Join the running chat instead of waiting for its end."`
	Answer       []string `sep:"none" placeholder:"TEXT" help:"Answer to an open question: 1; 1,3; a label or free text. Repeatable."`
}

// Run implements the command. It exits the process with the outcome of the chat as the code.
func (c *chatCmd) Run() error {
	options, err := c.options()
	if err == nil {
		var client *terminal.Client
		if client, err = c.client(); err == nil {
			ctx, interrupts := chatSignals()
			options.Interrupts = interrupts
			os.Exit(terminal.Run(ctx, client, options))
		}
	}

	fmt.Fprintln(os.Stderr, "everloop:", err)
	os.Exit(terminal.ExitTrouble)

	return nil
}

func (c *chatCmd) client() (*terminal.Client, error) {
	key, err := terminal.FindKey(c.Key, c.DataDir, c.URL)
	if err != nil {
		return nil, err
	}

	return terminal.NewClient(c.URL, key)
}

func (c *chatCmd) options() (terminal.Options, error) {
	input, output := int(os.Stdin.Fd()), int(os.Stdout.Fd())

	options := terminal.Options{
		Session: c.Session, Continue: c.Continue, Model: c.Model, Mode: c.Mode, Headless: c.Headless, Steer: c.Steer,
		Message: c.Message, Answers: c.Answer, Interactive: term.IsTerminal(input) && c.Message != "-",
		In: os.Stdin, Out: os.Stdout, Notes: os.Stderr,
	}
	if term.IsTerminal(output) {
		options.Style = terminal.Style{Live: true, Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
		if width, _, err := term.GetSize(output); err == nil {
			options.Style.Width = width
		}
	}

	if c.Message == "-" {
		content, err := io.ReadAll(os.Stdin)
		if err != nil {
			return options, err
		}

		if options.Message = strings.TrimSpace(string(content)); options.Message == "" {
			return options, errors.New("standard input contains no message")
		}
	}

	if c.OutputSchema != "" {
		content, err := os.ReadFile(c.OutputSchema)
		if err != nil {
			return options, err
		}

		if !json.Valid(content) {
			return options, fmt.Errorf("%s is not JSON", c.OutputSchema)
		}

		options.Schema = content
	}

	return options, nil
}

// chatSignals separates Ctrl-C, which stops the chat, from the signals that end the command.
func chatSignals() (context.Context, <-chan struct{}) {
	ctx, end := context.WithCancel(context.Background())
	signals, interrupts := make(chan os.Signal, 2), make(chan struct{})

	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if s != os.Interrupt {
				end()
				continue
			}

			select {
			case interrupts <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()

	return ctx, interrupts
}
