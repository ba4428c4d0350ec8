package sio_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

const childVariable = "EVERLOOP_SIO_CHILD"

// TestMain runs the server instead of the tests when the test binary starts
// itself, so that a crash takes a process that the tests can watch.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}

	addr, server, stop, err := serve(sio.Options{
		Log:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		BufferLimit: 1 << 20,
	}, fiber.Config{})
	if err != nil {
		panic(err)
	}

	fmt.Println(addr)

	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is done, or dead

	stop()
	fmt.Printf("panics %d\n", server.Stats().Panics)
	os.Exit(0)
}

// child is a server in a process of its own.
type child struct {
	addr  string
	stdin io.Closer
	out   *bufio.Scanner
	dead  chan struct{}

	mu     sync.Mutex
	stderr strings.Builder
}

func (c *child) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.stderr.Write(p)
}

func (c *child) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.stderr.String()
}

func startChild(t *testing.T) *child {
	t.Helper()

	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)

	cmd := exec.CommandContext(ctx, os.Args[0])

	cmd.Env = append(os.Environ(), childVariable+"=1")
	c := &child{dead: make(chan struct{})}
	cmd.Stderr = c
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, in, err := os.Pipe()
	require.NoError(t, err)

	cmd.Stdout = in
	require.NoError(t, cmd.Start())

	_ = in.Close()
	c.stdin = stdin
	c.out = bufio.NewScanner(out)
	require.True(t, c.out.Scan(), "the server did not start")
	c.addr = c.out.Text()

	go func() {
		_ = cmd.Wait()

		close(c.dead)
	}()

	return c
}

// alive reports whether the process still runs.
func (c *child) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// finish ends the process in order and returns its last line.
func (c *child) finish(t *testing.T) string {
	t.Helper()
	require.NoError(t, c.stdin.Close())

	select {
	case <-c.dead:
	case <-time.After(2 * patience):
		t.Fatal("the server did not stop")
	}

	require.NotContains(t, c.log(), "DATA RACE")
	require.True(t, c.out.Scan())

	return c.out.Text()
}

// witness is a well-behaved client that stays connected while others misbehave.
// It has events sent to it at a steady pace and asks a question with each.
type witness struct {
	conn *wsClient

	mu    sync.Mutex
	ticks int
	acks  int
	err   error
}

func startWitness(t *testing.T, addr string) *witness {
	t.Helper()

	c, err := join(addr, "websocket")
	require.NoError(t, err)
	require.NoError(t, c.send(`42["paced",{}]`))

	w := &witness{conn: c.(*wsClient)}
	go w.watch()

	t.Cleanup(c.close)

	return w
}

func (w *witness) watch() {
	for {
		packet, err := w.conn.receive(3 * patience)
		if err == nil {
			err = w.take(packet)
		}

		if err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()

			return
		}
	}
}

func (w *witness) take(packet string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch {
	case packet == "2":
		return w.conn.send("3")
	case strings.HasPrefix(packet, `42["tick",`):
		if want := fmt.Sprintf(`42["tick",{"n":%d}]`, w.ticks); packet != want {
			return fmt.Errorf("a gap: got %s, want %s", packet, want)
		}

		w.ticks++
		if w.ticks%10 == 0 {
			return w.conn.send(fmt.Sprintf(`42%d["echo",{}]`, w.ticks))
		}
	case strings.HasPrefix(packet, "43"):
		w.acks++
		if want := fmt.Sprintf(`43%d[`, w.acks*10); !strings.HasPrefix(packet, want) {
			return fmt.Errorf("answers out of order: got %s, want %s", packet, want)
		}
	}

	return nil
}

func (w *witness) state() (ticks, acks int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.ticks, w.acks, w.err
}

// goesOn fails the test unless events and answers keep coming.
func (w *witness) goesOn(t *testing.T) {
	t.Helper()

	ticks, acks, _ := w.state()
	deadline := time.Now().Add(2 * patience)

	for {
		nowTicks, nowAcks, err := w.state()
		require.NoError(t, err, "the well-behaved client was disturbed")

		if nowTicks >= ticks+3 && nowAcks > acks {
			return
		}

		require.True(t, time.Now().Before(deadline), "the well-behaved client gets nothing any more")

		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}
