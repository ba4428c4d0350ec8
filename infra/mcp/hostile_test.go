package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// oneSecond is the time limit of one call.
func oneSecond(s *toolserver.Record) { s.TimeoutS = 1 }

func TestManager_serverHangs(t *testing.T) {
	t.Parallel()

	for _, method := range []string{"initialize", "tools/list"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()

			hang := polite(func(m string, _, _ json.RawMessage) []byte {
				if m == method {
					return silence
				}

				return nil
			})
			w := newEnv(t)
			w.stdio("good", serving(everything()))
			w.stdio("hang", hang)
			require.Contains(t, w.atFirst(6), "mcp__good__echo")
			require.Eventually(
				t,
				func() bool { return w.store.state("hang").Status == toolserver.Connecting },
				soon,
				tick,
				"it was waited for",
			)

			w = newEnv(t, func(c *Config) { c.ConnectTime = time.Second })
			w.stdio("hang", hang)
			require.Empty(t, w.offered())
			require.Eventually(t, func() bool { return w.store.state("hang").Status == toolserver.Failed }, soon, tick)
			require.Contains(t, w.store.state("hang").Error, "does not answer")
		})
	}
}

func TestAServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, func(c *Config) { c.ConnectTime = time.Second })
	w.stdio("deaf", func(ctx context.Context, _ io.Reader, _, _ io.Writer) error {
		<-ctx.Done()
		return nil
	})
	require.Empty(t, w.offered())
	require.Eventually(t, func() bool { return w.store.state("deaf").Status == toolserver.Failed }, soon, tick)
}

func TestACallThatHangs(t *testing.T) {
	t.Parallel()

	for tries := 1; ; tries++ {
		w := newEnv(t)
		w.stdio("slow", polite(func(method string, _, _ json.RawMessage) []byte {
			if method == "tools/call" {
				return silence
			}

			return nil
		}), oneSecond)

		for _, name := range []string{"mcp__slow__act", "mcp__slow__look"} {
			result, err := w.call(t.Context(), name, `{}`)
			require.NoError(t, err)
			require.True(t, result.IsError)
			require.Contains(t, result.Output, "longer than 1s")
		}

		started, alive := w.launcher.running()
		if started > 1 && tries < 5 {
			continue // a busy machine answered a ping after seconds
		}

		require.Equal(t, [2]int{1, 1}, [2]int{started, alive}, "it answers pings, so it is only slow")

		return
	}
}

func TestAServerThatDiedInside(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("dead", polite(func(method string, _, _ json.RawMessage) []byte {
		if method == "tools/call" || method == "ping" {
			return silence
		}

		return nil
	}), oneSecond)
	_, err := w.call(t.Context(), "mcp__dead__act", `{}`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		started, alive := w.launcher.running()
		return alive == 0 || started > 1
	}, soon, tick, "a server that does not answer a ping is ended")
	require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "does not answer any more") }, soon, tick)
	w.tool("mcp__dead__act") // and started again
}

func TestCall_serverDies(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("frail", func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		dying, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)

		server := polite(func(method string, _, _ json.RawMessage) []byte {
			if method == "tools/call" {
				_, _ = errs.Write([]byte("fatal: out of \x1b[31mluck\n"))

				cancel(errors.New("killed"))

				return silence
			}

			return nil
		})

		over := make(chan error, 1)
		go func() { over <- server(dying, in, out, errs) }()

		select {
		case err := <-over:
			return err
		case <-dying.Done():
			return context.Cause(dying)
		}
	})
	acting, err := w.call(t.Context(), "mcp__frail__act", `{}`)
	require.NoError(t, err, "what may have acted is not tried again")
	require.True(t, acting.IsError)
	require.Contains(
		t,
		acting.Output,
		"was lost while the call ran, which may have taken effect in part: its process ended by a signal (killed)",
	)
	require.Contains(t, acting.Output, "fatal: out of [31mluck")

	looking, err := w.call(t.Context(), "mcp__frail__look", `{}`)
	require.Error(t, err, "what only looks is tried again")
	require.True(t, looking.IsError)

	started, _ := w.launcher.running()
	require.GreaterOrEqual(t, started, 2)
}

func TestACrashLoopIsSlowedDown(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("loop", func(_ context.Context, _ io.Reader, _, errs io.Writer) error {
		_, _ = errs.Write([]byte("no configuration"))
		return nil
	})

	began := time.Now()
	for time.Since(began) < 1500*time.Millisecond {
		require.Empty(t, w.offered())
	}

	started, _ := w.launcher.running()
	// Twice, and then again after 1, 2, 4, … seconds.
	require.LessOrEqual(t, started, 3+bits.Len(uint(time.Since(began)/time.Second)))
	require.Eventually(t, func() bool { // an end that is noticed after seconds is reported with the next try
		state := w.store.state("loop")

		return len(w.offered()) == 0 && state.Status == toolserver.Failed &&
			state.Error == "its process ended with exit code 0; it wrote: no configuration"
	}, soon, tick)
}

func TestAMissingProgram(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.add(domain.MCPServer{Name: "gone", Transport: toolserver.Stdio, Command: "nowhere"})
	require.Empty(t, w.offered())
	require.Eventually(t, func() bool { return w.store.state("gone").Error != "" }, soon, tick)
	require.Contains(t, w.store.state("gone").Error, "no such program")
}

func TestAFloodIsBounded(t *testing.T) {
	t.Parallel()

	flood := strings.Repeat("x", 1<<20)
	w := newEnv(t)
	w.stdio("flood", fake(nil))
	w.launcher.programs["flood"] = func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		return polite(func(method string, id, _ json.RawMessage) []byte {
			if method != "tools/call" {
				return nil
			}

			_, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
			for range 100 { // 100 MiB
				if err == nil {
					_, err = io.WriteString(out, flood)
				}
			}

			_, _ = io.WriteString(out, `"}]}}`)

			return silence
		})(ctx, in, out, errs)
	}
	result, err := w.call(t.Context(), "mcp__flood__act", `{}`)
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Output, "more than 16 MiB")
	w.tool("mcp__flood__act") // a new process

	t.Run("a large result that is still allowed", func(t *testing.T) {
		w.stdio("large", polite(func(method string, id, _ json.RawMessage) []byte {
			if method == "tools/call" {
				return reply(id, `{"content":[{"type":"text","text":"`+strings.Repeat(flood, 10)+`"}]}`)
			}

			return nil
		}))
		w.manager.ForgetServer("")
		result, err := w.call(t.Context(), "mcp__large__act", `{}`)
		require.NoError(t, err)
		require.Less(t, len(result.Output), 9<<20)
		require.Contains(t, result.Output, "the rest is left out")
	})
}

func TestNoiseOnStandardOutput(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	with := func(noise string) program {
		return func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
			if _, err := io.WriteString(out, noise); err != nil {
				return err
			}

			return polite(func(method string, id, _ json.RawMessage) []byte {
				if method == "tools/call" {
					// Answers to no request, half an answer and an answer of a wrong kind come before the right one.
					return append([]byte("{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n{\"jsonrpc\":\"1.0\"}\n[1,2]\n{\"id\":\n"),
						reply(id, `{"content":[{"type":"text","text":"right"}]}`)...)
				}

				return nil
			})(ctx, in, out, errs)
		}
	}
	w.stdio("chatty", with("Welcome!\n\n{not json}\nlistening …\n"))
	result, err := w.call(t.Context(), "mcp__chatty__act", `{}`)
	require.NoError(t, err)
	require.Equal(t, "right", result.Output)

	w.stdio("babble", with(strings.Repeat("blah blah\n", 50_000)))
	w.manager.ForgetServer("")
	w.offered()
	require.Eventually(t, func() bool { return w.store.state("babble").Status == toolserver.Failed }, soon, tick)
	require.Contains(t, w.store.state("babble").Error, "not a protocol message")
}

func TestCall_strayAnswers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("liar", polite(func(method string, _, _ json.RawMessage) []byte {
		if method == "tools/call" {
			return reply(json.RawMessage(`"another"`), `{"content":[]}`)
		}

		return nil
	}), oneSecond)
	result, err := w.call(t.Context(), "mcp__liar__act", `{}`)
	require.NoError(t, err)
	require.Contains(t, result.Output, "longer than 1s")
}

func TestAHugeList(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	list := func(tools ...string) program {
		return polite(func(method string, id, _ json.RawMessage) []byte {
			if method == "tools/list" {
				return reply(id, `{"tools":[`+strings.Join(tools, ",")+`]}`)
			}

			return nil
		})
	}

	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}

	w.stdio("many", list(many...))
	w.stdio("wordy", list(
		`{"name":"long","description":"`+strings.Repeat("word ", 2<<20)+`","inputSchema":{"type":"object"}}`,
		`{"name":"wide","inputSchema":{"type":"object","description":"`+strings.Repeat("w", 1<<20)+`"}}`,
	))
	w.stdio("wrong", list(
		`{"name":"invalid","inputSchema":{"type":"object","properties":{"a":{"type":"nonsense"}}}}`,
		`{"name":"array","inputSchema":{"type":"array"}}`,
		`{"name":"none"}`,
		`{"name":""}`,
		`{"name":"nul","inputSchema":{"type":"object","title":"\u0000"}}`,
		`{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/schema"}}}}`,
		`{"name":"twice","inputSchema":{"type":"object"}}`,
		`{"name":"twice","inputSchema":{"type":"object"}}`,
		`{"name":"dialect","inputSchema":{"$schema":"https://example.com/mine","type":"object"}}`,
		`{"name":"evil \u202ename\u0007","description":"a\u0000b\u001b[2J\u200b","inputSchema":{}}`,
		`{"name":"zod4","inputSchema":{"type":"object","properties":{"mail":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.).+@x$"},`+
			`"plain":{"type":"string","pattern":"^a+$","default":{"pattern":"(?=x)"}}},`+
			`"patternProperties":{"^(?=k)":{"type":"string"},"^x":{"type":"number"}},"additionalProperties":false}}`,
		`{"name":"draft7","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"n":{`+
			`"type":"number"}},"required":["n"]}}`,
	))
	w.stdio("endless", polite(func(method string, id, params json.RawMessage) []byte {
		if method == "tools/list" {
			return reply(id, fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, time.Now().UnixNano()))
		}

		return nil
	}))
	w.offered()

	names := func(server string) []string {
		require.Eventually(t, func() bool { return w.store.state(server).Status == toolserver.Connected }, soon, tick, server)

		var out []string

		for name, tool := range w.offered() {
			if strings.HasPrefix(name, "mcp__"+server+"__") {
				require.LessOrEqual(t, len([]rune(tool.Spec.Description)), maxDescription)

				out = append(out, strings.TrimPrefix(name, "mcp__"+server+"__"))
			}
		}

		return out
	}
	require.Len(t, names("many"), maxTools)
	require.Equal(t, "it has more than 128 tools; 9872 tools are not offered", w.store.state("many").Error)
	require.Equal(t, []string{"long"}, names("wordy"))

	evil := strings.TrimPrefix(toolName("wrong", "evil \u202ename\a"), "mcp__wrong__")
	require.ElementsMatch(t, []string{"remote", "twice", "dialect", "draft7", "zod4", evil}, names("wrong"))
	require.JSONEq(t, `{"type":"object","properties":{"mail":{"type":"string"},
		"plain":{"type":"string","pattern":"^a+$","default":{"pattern":"(?=x)"}}},"patternProperties":{"^x":{"type":"number"}}}`,
		string(w.offered()["mcp__wrong__zod4"].Spec.Parameters), "patterns that Go does not know are left to the server")
	require.NotContains(t, w.store.state("wrong").Error, "file:")
	require.Equal(t, "ab[2J", w.offered()["mcp__wrong__"+evil].Spec.Description)
	require.Empty(t, names("endless"))
	require.Contains(t, w.store.state("endless").Error, "no end")
}

// A process may be gone before the first message to it is written, and known to
// be only later: its end is reported all the same, not the broken pipe.
func TestCall_serverEndsBeforeItReads(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("short", func(ctx context.Context, in io.Reader, _, errs io.Writer) error {
		_, _ = errs.Write([]byte("no licence"))
		_ = in.(io.Closer).Close()

		select { // its end is noticed late
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}

		return nil
	})
	require.Empty(t, w.offered())
	require.Eventually(t, func() bool { // an end that is noticed after seconds is reported with the next try
		return len(w.offered()) == 0 && w.store.state("short").Error == "its process ended with exit code 0; it wrote: no licence"
	}, soon, tick)
}
