package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxNoise is the maximum amount of standard output that is not a message, in bytes: many
	// servers print a greeting.
	maxNoise = 256 << 10
	// writeTime is the maximum time until a server must read a message.
	writeTime = 10 * time.Second
	// endingTime is the maximum wait for the end of a process that does not read its input.
	endingTime = 2 * time.Second
)

// stdio is the transport to a process, with one message per line. In contrast to the SDK's
// transport, it skips a limited amount of lines that are not messages, and gives up on a process
// that does not read.
type stdio struct {
	process Process
	out     *io.PipeReader
	said    *said
	tools   *taskTools
	budget  budget

	incoming chan jsonrpc.Message
	closed   chan struct{}
	writing  sync.Mutex

	mu    sync.Mutex
	cause error // cause of the end; the first one wins
	once  sync.Once
}

// startStdio starts the program and returns its transport. Cancelling ctx kills the program.
func startStdio(ctx context.Context, launcher Launcher, program Program, tools *taskTools) (*stdio, error) {
	reader, writer := io.Pipe()
	t := &stdio{out: reader, said: &said{}, tools: tools, incoming: make(chan jsonrpc.Message), closed: make(chan struct{})}
	program.Stdout, program.Stderr = writer, t.said

	process, err := launcher.Launch(ctx, program)
	if err != nil {
		return nil, err
	}

	t.process = process
	go t.read()
	go func() {
		<-process.Done()

		_ = writer.Close() // the process had time to write its last output
	}()

	return t, nil
}

// Connect implements sdk.Transport.
func (t *stdio) Connect(context.Context) (sdk.Connection, error) { return t, nil }

// SessionID implements sdk.Connection: a process has a single session.
func (t *stdio) SessionID() string { return "" }

// read reads lines from the process, skips those that are not messages, and delivers the messages
// until the output ends or a limit is exceeded.
func (t *stdio) read() {
	in := bufio.NewReaderSize(t.out, 64<<10)
	noise := 0

	for {
		line, err := readLine(in, maxMessage)
		if err == nil {
			err = t.budget.spend(len(line), 0)
		}

		if err != nil {
			t.fail(t.explain(err))
			return
		}

		message, err := decode(line)
		if err != nil {
			if noise += len(line) + 1; noise > maxNoise {
				t.fail(errors.New("it writes to its standard output something that is not a protocol message"))
				return
			}

			_, _ = t.said.Write(append(line[:min(len(line), 400)], '\n'))

			continue
		}

		if err := t.budget.spend(0, 1); err != nil {
			t.fail(err)
			return
		}

		t.tools.read(line)

		select {
		case t.incoming <- message:
		case <-t.closed:
			return
		}
	}
}

var errTooLarge = fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)

// readLine reads the next line of at most limit bytes.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte

	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errTooLarge
		}

		line = append(line, part...)

		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func decode(line []byte) (jsonrpc.Message, error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, errors.New("no JSON object")
	}

	return jsonrpc.DecodeMessage(line)
}

// explain returns the reason of a failed read; usually the process has ended.
func (t *stdio) explain(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}

	ending := "its output was closed"

	select {
	case <-t.process.Done():
		ending = t.process.Ending()
	default:
	}

	if last := t.said.last(); last != "" {
		return fmt.Errorf("%s; it wrote: %s", ending, last)
	}

	return errors.New(ending)
}

// fail closes the transport with a cause.
func (t *stdio) fail(cause error) {
	t.mu.Lock()
	if t.cause == nil {
		t.cause = cause
	}
	t.mu.Unlock()
	_ = t.Close()
}

// why returns the cause of an unexpected end, or nil when this side closed it.
func (t *stdio) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.cause
}

// Read implements sdk.Connection.
func (t *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message := <-t.incoming:
		return message, nil
	case <-t.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection.
func (t *stdio) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}

	late := time.AfterFunc(writeTime, func() { t.fail(errors.New("it does not read what is sent to it")) })
	defer late.Stop()

	t.writing.Lock()
	defer t.writing.Unlock()

	if _, err = t.process.Stdin().Write(append(data, '\n')); err == nil {
		return nil
	}
	// Usually the process has just ended: wait briefly for its status, which is more informative
	// than a write error.
	moment := time.NewTimer(endingTime)
	defer moment.Stop()

	select {
	case <-t.closed:
	case <-moment.C:
	}

	if why := t.why(); why != nil {
		return why
	}

	return err
}

// Close implements sdk.Connection: it ends the process.
func (t *stdio) Close() error {
	t.once.Do(func() {
		close(t.closed)
		t.process.Kill()
		_ = t.process.Stdin().Close()
		_ = t.out.Close()
	})

	return nil
}
