package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/model"
)

const testKey = "sk-secret-value"

// server answers every request with the handler and gives a client for it.
func server(t *testing.T, handler http.HandlerFunc) *model.Client {
	t.Helper()
	return serverWith(t, model.Config{}, handler)
}

func serverWith(t *testing.T, cfg model.Config, handler http.HandlerFunc) *model.Client {
	t.Helper()

	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	cfg.BaseURL, cfg.Key = s.URL, testKey

	return model.New(cfg)
}

// events writes lines as an event stream, flushed one by one.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")

		for _, line := range lines {
			fmt.Fprint(w, line, "\n\n")
			w.(http.Flusher).Flush()
		}
	}
}

// delta returns a data line with one choice's delta.
func delta(body string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":` +
		body + `,"finish_reason":null}]}`
}

func finish(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const (
	usage = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`
	done  = `data: [DONE]`
)

func ask() domain.Prompt {
	return domain.Prompt{Model: "m", Messages: []domain.PromptMessage{
		{Role: "user", Parts: []domain.ContentPart{{Type: "text", Text: "hi"}}},
	}}
}

func call(t *testing.T, c *model.Client) (domain.Reply, error) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	return c.Stream(ctx, ask(), nil)
}

func requireFault(t *testing.T, err error, want domain.ModelFault) *domain.ModelError {
	t.Helper()

	var fault *domain.ModelError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, want, fault.Fault, fault.Error())
	require.NotContains(t, err.Error(), testKey)

	return fault
}

func TestStream_deltasInOrder(t *testing.T) {
	c := server(t, events(
		": keep-alive",
		delta(`{"role":"assistant","content":""}`),
		delta(`{"reasoning_content":"let me "}`),
		delta(`{"reasoning":"see","reasoning_content":null}`),
		delta(`{"content":"Hel"}`),
		": keep-alive",
		delta(`{"content":"lo ✓"}`),
		finish("stop"), usage, done,
	))

	var got []domain.Delta

	reply, err := c.Stream(t.Context(), ask(), func(d domain.Delta) error {
		got = append(got, d)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []domain.Delta{
		{Kind: domain.DeltaThinking, Text: "let me "},
		{Kind: domain.DeltaThinking, Text: "see"},
		{Kind: domain.DeltaText, Text: "Hel"},
		{Kind: domain.DeltaText, Text: "lo ✓"},
	}, got)
	require.Equal(t, domain.Reply{
		Text: "Hello ✓", Thinking: "let me see", ReasoningField: domain.ReasoningContent, FinishReason: "stop", Model: "m-1",
		Usage: domain.Usage{InputTokens: 11, OutputTokens: 7},
	}, reply)
}

func TestStreamShapesThatSucceed(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		check   func(*testing.T, domain.Reply)
	}{
		"usage in the finishing chunk": {
			events(
				delta(`{"content":"a"}`),
				`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
				done,
			),
			func(t *testing.T, r domain.Reply) {
				require.Equal(t, domain.Usage{InputTokens: 3, OutputTokens: 1}, r.Usage)
			},
		},
		"cached tokens of the prompt": {
			events(
				delta(`{"content":"a"}`), finish("stop"),
				`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,`+
					`"prompt_tokens_details":{"cached_tokens":6,"cache_write_tokens":2}}}`,
				done,
			),
			func(t *testing.T, r domain.Reply) {
				require.Equal(t, domain.Usage{InputTokens: 10, OutputTokens: 1, CacheReadTokens: 6, CacheWriteTokens: 2}, r.Usage)
			},
		},
		"cached tokens by the names of other servers": {
			events(
				delta(`{"content":"a"}`), finish("stop"),
				`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,`+
					`"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6,`+
					`"cache_creation_input_tokens":3,"prompt_tokens_details":null}}`,
				done,
			),
			func(t *testing.T, r domain.Reply) {
				require.Equal(t, domain.Usage{InputTokens: 10, OutputTokens: 1, CacheReadTokens: 4, CacheWriteTokens: 3}, r.Usage)
			},
		},
		"more cached tokens than the prompt has": {
			events(
				delta(`{"content":"a"}`), finish("stop"),
				`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":-1,`+
					`"cached_tokens":60,"cache_read_input_tokens":7}}`, done,
			),
			func(t *testing.T, r domain.Reply) {
				require.Equal(t, domain.Usage{InputTokens: 10, CacheReadTokens: 10}, r.Usage)
			},
		},
		"no [DONE] after the finish reason": {
			events(delta(`{"content":"a"}`), finish("length")),
			func(t *testing.T, r domain.Reply) { require.Equal(t, "length", r.FinishReason) },
		},
		"cut after the finish reason": {
			func(w http.ResponseWriter, r *http.Request) {
				events(delta(`{"content":"a"}`), finish("stop"))(w, r)
				panic(http.ErrAbortHandler)
			},
			func(t *testing.T, r domain.Reply) { require.Equal(t, "a", r.Text) },
		},
		"both names of thinking with the same text": {
			events(delta(`{"reasoning":"x","reasoning_content":"x"}`), finish("stop"), done),
			func(t *testing.T, r domain.Reply) { require.Equal(t, "x", r.Thinking) },
		},
		"data without a space, CRLF, other fields": {
			func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "id: 7\r\nretry: 10\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
					"data:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n")
			},
			func(t *testing.T, r domain.Reply) { require.Equal(t, "a", r.Text) },
		},
		"null error member, unknown fields, second choice": {
			events(
				`data: {"error":null,"x":{"y":[1]},"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"a"}}]}`,
				finish("stop"),
				done,
			),
			func(t *testing.T, r domain.Reply) { require.Equal(t, "a", r.Text) },
		},
		"a server that does not stream": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				fmt.Fprint(
					w,
					`{"model":"whole","choices":[{"index":0,"message":{"role":"assistant","content":"all","tool_calls":[{"id":"a",`+
						`"type":"function","function":{"name":"Bash","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{`+
						`"prompt_tokens":1,"completion_tokens":2}}`,
				)
			},
			func(t *testing.T, r domain.Reply) {
				require.Equal(t, domain.Reply{
					Text: "all", Model: "whole", FinishReason: "tool_calls", Usage: domain.Usage{InputTokens: 1, OutputTokens: 2},
					Calls: []domain.RequestedCall{{ID: "a", Name: "Bash", Arguments: "{}"}},
				}, r)
			},
		},
		"a line longer than the read buffer": {
			events(delta(`{"content":"`+strings.Repeat("long ", 20_000)+`"}`), finish("stop"), done),
			func(t *testing.T, r domain.Reply) { require.Len(t, r.Text, 100_000) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reply, err := call(t, server(t, tt.handler))
			require.NoError(t, err)
			tt.check(t, reply)
		})
	}
}

func TestStreamFaults(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    domain.ModelFault
		says    string
	}{
		"end without a finish reason":  {events(delta(`{"content":"a"}`)), domain.FaultTransient, "ended before"},
		"[DONE] without finish reason": {events(delta(`{"content":"a"}`), done), domain.FaultTransient, "ended before"},
		"empty stream":                 {events(), domain.FaultTransient, "ended before"},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			events(delta(`{"content":"a"}`))(w, r)
			panic(http.ErrAbortHandler)
		}, domain.FaultTransient, "cut"},
		"error object": {
			events(delta(`{"content":"a"}`), ": ping", `data: {"error":{"message":"out of memory","type":"server_error","code":"oom"}}`),
			domain.FaultTransient,
			"out of memory",
		},
		"error object with another member first": {events(`data: {"id":"x","error":{"message":"broke"}}`), domain.FaultTransient, "broke"},
		"error as text":                          {events(`data: {"error":"went wrong"}`), domain.FaultTransient, "went wrong"},
		"error event": {
			events("event: error\ndata: {\"message\":\"nope\",\"type\":\"rate_limit_error\"}"),
			domain.FaultRateLimited,
			"nope",
		},
		"error object without data prefix": {
			events(delta(`{"content":"a"}`), `{"error":{"message":"bare","code":503}}`),
			domain.FaultTransient,
			"bare",
		},
		"vLLM error object": {
			events(`data: {"object":"error","message":"bad input","type":"invalid_request_error","code":400}`),
			domain.FaultRefused,
			"bad input",
		},
		"overflow in the stream": {
			events(`data: {"error":{"message":"the request exceeds the available context size","code":500,"type":"server_error"}}`),
			domain.FaultContextOverflow,
			"available context size",
		},
		"error after the finish reason": {
			events(finish("stop"), `data: {"error":{"message":"late"}}`),
			domain.FaultTransient,
			"late",
		},
		"malformed chunk": {
			events(delta(`{"content":"a"}`), `data: {"choices":[{"delta":`, finish("stop"), done),
			domain.FaultTransient,
			"malformed",
		},
		"finish reason error": {
			events(delta(`{"content":"a"}`), finish("error"), done),
			domain.FaultTransient,
			"gave up",
		},
		"status 200 with an error body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"error":{"message":"no such","code":"model_not_found"}}`)
		}, domain.FaultUnknownModel, "no such"},
		"a web page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>welcome</html>")
		}, domain.FaultRefused, "web page"},
		"too much text": {func(w http.ResponseWriter, r *http.Request) {
			line := delta(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`)
			for range 9 {
				events(line)(w, r)
			}

			events(finish("stop"), done)(w, r)
		}, domain.FaultRefused, "exceeds"},
		"too many calls": {func(w http.ResponseWriter, r *http.Request) {
			for i := range 300 {
				events(
					delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"Bash","arguments":"{}"}}]}`, i, i)),
				)(
					w,
					r,
				)
			}

			events(finish("tool_calls"), done)(w, r)
		}, domain.FaultRefused, "256 tool calls"},
		"an endless line": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := strings.Repeat("x", 1<<20)

			fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"`)

			for range 20 {
				fmt.Fprint(w, chunk)
			}
		}, domain.FaultRefused, "line"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := call(t, server(t, tt.handler))
			fault := requireFault(t, err, tt.want)
			require.Contains(t, fault.Message, tt.says)
		})
	}
}

func TestStream_brokenResponse(t *testing.T) {
	reply, err := call(t, server(t, events(delta(`{"content":"half"}`))))
	require.Error(t, err)
	require.Equal(t, "half", reply.Text)
}

func TestSilentStreamIsAFault(t *testing.T) {
	hold := func(lines ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			events(lines...)(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	idle := model.Config{IdleTimeout: 50 * time.Millisecond, FirstTimeout: time.Minute}
	late := model.Config{IdleTimeout: time.Minute, FirstTimeout: 3 * time.Second}

	t.Run("after the first piece", func(t *testing.T) {
		_, err := call(t, serverWith(t, idle, hold(delta(`{"content":"a"}`))))
		require.Contains(t, requireFault(t, err, domain.FaultTransient).Message, "nothing for 50ms")
	})
	t.Run("before the first piece", func(t *testing.T) {
		_, err := call(t, serverWith(t, late, hold()))
		require.Contains(t, requireFault(t, err, domain.FaultTransient).Message, "nothing for 3s")
	})
	t.Run("before the header", func(t *testing.T) {
		_, err := call(t, serverWith(t, late, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		requireFault(t, err, domain.FaultTransient)
	})
	t.Run("after the finish reason it is an answer", func(t *testing.T) {
		// Long enough for both to arrive on a slow machine.
		reply, err := call(
			t,
			serverWith(
				t,
				model.Config{IdleTimeout: 20 * time.Second, FirstTimeout: time.Minute},
				hold(delta(`{"content":"a"}`), finish("stop")),
			),
		)
		require.NoError(t, err)
		require.Equal(t, "a", reply.Text)
	})
	t.Run("after [DONE] nothing is waited for", func(t *testing.T) {
		_, err := call(t, serverWith(t, model.Config{IdleTimeout: time.Hour}, hold(delta(`{"content":"a"}`), finish("stop"), done)))
		require.NoError(t, err)
	})
}

// scriptedBody returns a body that a test writes to; it ends with the request.
func scriptedBody(write func(*io.PipeWriter)) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		in, out := io.Pipe()

		context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(context.Cause(r.Context())) })

		go write(out)

		return &http.Response{
			StatusCode: http.StatusOK,
			Request:    r,
			Header:     http.Header{"Content-Type": {"text/event-stream"}},
			Body:       in,
		}, nil
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Only chunks count: a proxy sends keep-alives for a server that is dead.
func TestStream_keepAliveDoesNotExtendIdleTimeout(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		sign  string
		alive bool
	}{
		"comments":             {": working\n", false},
		"comments as events":   {": working\n\n", false},
		"blank lines":          {"\n", false},
		"data without a value": {"data:\n\n", false},
		"data with blanks":     {"data:  \n\n", false},
		"event names":          {"event: ping\n", false},
		"other fields":         {"id: 7\nretry: 10\n", false},
		"pings":                {"event: ping\ndata: {\"type\": \"ping\"}\n\n", false},
		"chunks without text":  {delta(`{}`) + "\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := model.New(model.Config{
					BaseURL: "http://model.test", IdleTimeout: 2 * time.Minute, FirstTimeout: 10 * time.Minute,
					Transport: scriptedBody(func(out *io.PipeWriter) {
						_, _ = io.WriteString(out, delta(`{"content":"a"}`)+"\n\n")

						for range 600 {
							time.Sleep(time.Second) //nolint:forbidigo // in a synctest bubble

							if _, err := io.WriteString(out, c.sign); err != nil {
								return
							}
						}

						_, _ = io.WriteString(out, finish("stop")+"\n\n"+done+"\n\n")
						_ = out.Close()
					}),
				})

				began := time.Now()
				reply, err := client.Stream(t.Context(), ask(), nil)
				took := time.Since(began)

				time.Sleep(time.Minute) //nolint:forbidigo // in a synctest bubble: the server notices the closed pipe
				require.Equal(t, "a", reply.Text)

				if c.alive {
					require.NoError(t, err)
					return
				}

				require.Contains(t, requireFault(t, err, domain.FaultTransient).Message, "nothing for 2m0s")
				require.Less(t, took, 3*time.Minute)
			})
		})
	}
}

func TestStream_cancelled(t *testing.T) {
	gone := make(chan struct{})
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		events(delta(`{"content":"a"}`))(w, r)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	reply, err := c.Stream(ctx, ask(), func(domain.Delta) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "a", reply.Text)

	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the server did not notice")
	}
}

func TestStream_callbackFails(t *testing.T) {
	gone := make(chan struct{})
	stop := errors.New("fenced off")
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		events(delta(`{"content":"a"}`))(w, r)
		<-r.Context().Done()
		close(gone)
	})
	_, err := c.Stream(t.Context(), ask(), func(domain.Delta) error { return stop })
	require.ErrorIs(t, err, stop)

	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the server did not notice")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	seen := make(map[string]int)

	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr]++
		events(delta(`{"content":"a"}`), finish("stop"), done)(w, r)
	})
	for n := 0; len(seen) == n && n < 50; n++ { // a server that is slow to end its answer is not waited for
		_, err := call(t, c)
		require.NoError(t, err)
	}

	require.Less(t, len(seen), 50)
}

func TestUnreachableServer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	_, err := call(t, model.New(model.Config{BaseURL: s.URL, Key: testKey}))
	requireFault(t, err, domain.FaultTransient)

	_, err = call(t, model.New(model.Config{BaseURL: "http://bad host\x7f", Key: testKey}))
	requireFault(t, err, domain.FaultRefused)
}
