package mock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
)

// fault runs a script and returns the model error that it must cause.
func (b *bed) fault(order string) (domain.Reply, *domain.ModelError) {
	b.t.Helper()
	reply, err := b.stream(prompt(nil, script(order)))

	var fault *domain.ModelError
	require.ErrorAs(b.t, err, &fault)

	return reply, fault
}

func TestStepsAnswerOneCallEach(t *testing.T) {
	b := start(t, mock.Config{})
	messages := []domain.PromptMessage{
		say("user", "hi"), say("assistant", "hello"), // does not count: it is before the script
		script(
			`{"steps":[{"text":"first"},{"text":"second","finish_reason":"length","usage":{"prompt_tokens":5,"completion_tokens":6}}],` +
				`"closing":"the end"}`,
		),
	}

	var got []domain.Reply

	for range 4 {
		reply := b.must(prompt(nil, messages...))
		got = append(got, reply)
		messages = append(messages, say("assistant", reply.Text))
	}

	require.Equal(t, "first", got[0].Text)
	require.Equal(t, "second", got[1].Text)
	require.Equal(t, "length", got[1].FinishReason)
	require.Equal(t, domain.Usage{InputTokens: 5, OutputTokens: 6}, got[1].Usage)
	require.Equal(t, "the end", got[2].Text)
	require.Equal(t, "the end", got[3].Text)
}

func TestCallsOfAStep(t *testing.T) {
	b := start(t, mock.Config{})
	reply := b.must(prompt(nil, script(`{"steps":[{"chunk":1,"calls":[
		{"name":"Bash","id":"mine","arguments":{"command":"printf 'ü\"\\n'"}},
		{"name":"Bash","raw":"{\"command\": tru"},
		{"name":"Bare"}]}]}`)))
	require.Equal(t, "tool_calls", reply.FinishReason)
	require.Equal(t, domain.RequestedCall{ID: "mine", Name: "Bash", Arguments: `{"command":"printf 'ü\"\\n'"}`}, reply.Calls[0])
	require.Equal(t, `{"command": tru`, reply.Calls[1].Arguments)
	require.Equal(t, "{}", reply.Calls[2].Arguments)
}

func TestLoop(t *testing.T) {
	b := start(t, mock.Config{})
	replies := b.play(
		nil,
		"",
		script(
			`{"loop":{"n":7,"text":"step {{i}}","call":{"name":"Bash","arguments":{"command":"echo {{i}}"}}},"steps":[{"text":"after"}]}`,
		),
	)
	require.Len(t, replies, 8)
	require.Equal(t, "step 6", replies[6].Text)
	require.JSONEq(t, `{"command":"echo 6"}`, replies[6].Calls[0].Arguments)
	require.Equal(t, "after", replies[7].Text)
}

func TestScript_nestedForSubAgent(t *testing.T) {
	b := start(t, mock.Config{})
	inner := `[[script]]{"steps":[{"text":"from below"}]}[[/script]]`
	arguments, err := json.Marshal(map[string]string{"prompt": inner})
	require.NoError(t, err)

	reply := b.must(prompt(nil, script(`{"steps":[{"calls":[{"name":"Agent","arguments":`+string(arguments)+`}]}]}`)))

	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(reply.Calls[0].Arguments), &got))
	require.Equal(t, "from below", b.must(prompt(nil, say("user", got["prompt"]))).Text)
}

func TestScript_stickyAfterSteering(t *testing.T) {
	b := start(t, mock.Config{})
	order := `{"sticky":true,"steps":[{"text":"one"},{"text":"two"}]}`
	reply := b.must(prompt(nil, script(order), say("assistant", "one"), say("user", "also mind the tests")))
	require.Equal(t, "two", reply.Text)
	reply = b.must(prompt(nil, script(strings.Replace(order, "true", "false", 1)), say("assistant", "one"), say("user", "also")))
	require.NotEqual(t, "two", reply.Text)
}

func TestEcho(t *testing.T) {
	b := start(t, mock.Config{})
	for name, p := range map[string]domain.Prompt{
		"by script": prompt(specs("Bash"), say("system", "sys"), script(`{"echo":true}`)),
		"by step":   prompt(specs("Bash"), say("system", "sys"), script(`{"steps":[{"echo":true}]}`)),
		"by model": {Model: mock.EchoModel, Messages: []domain.PromptMessage{
			say("system", "sys"),
			say("user", "please"),
		}, Tools: specs("Bash")},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct {
				Model    string
				Messages []struct{ Role, Content string }
				Tools    []string
			}
			require.NoError(t, json.Unmarshal([]byte(b.must(p).Text), &got))
			require.Equal(t, p.Model, got.Model)
			require.Equal(t, "sys", got.Messages[0].Content)
			require.Contains(t, got.Messages[1].Content, "please")
			require.Equal(t, []string{"Bash"}, got.Tools)
		})
	}
}

func TestTokens(t *testing.T) {
	b := start(t, mock.Config{Pace: time.Hour}) // scripts do not keep the demonstration's pace
	seen := 0
	reply, err := b.client.Stream(t.Context(), prompt(nil, script(`{"steps":[{"text":"a ","tokens":5000}]}`)), func(domain.Delta) error {
		seen++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 5001, seen)
	require.EqualValues(t, 5001, reply.Usage.OutputTokens)
	require.Len(t, strings.Fields(reply.Text), 5001)
}

func TestOrderedFaults(t *testing.T) {
	b := start(t, mock.Config{})

	tests := []struct {
		name, order string
		want        domain.ModelFault
		status      int
		text        string // what arrived before
	}{
		{"status", `{"steps":[{"status":503}]}`, domain.FaultTransient, 503, ""},
		{"rate limit", `{"steps":[{"status":429,"retry_after":3}]}`, domain.FaultRateLimited, 429, ""},
		{"refusal", `{"steps":[{"status":401}]}`, domain.FaultRefused, 401, ""},
		{"overflow", `{"steps":[{"status":400,"error_code":"context_length_exceeded"}]}`, domain.FaultContextOverflow, 400, ""},
		{"cut", `{"steps":[{"text":"a b c d","cut_after":2}]}`, domain.FaultTransient, 0, "a b "},
		{"cut before anything", `{"steps":[{"text":"a b c d","cut_after":0}]}`, domain.FaultTransient, 0, ""},
		{"cut after everything", `{"steps":[{"text":"a b","cut_after":99}]}`, domain.FaultTransient, 0, "a b"},
		{
			"error mid-stream",
			`{"steps":[{"text":"a b c d","error_mid_stream":true,"error_message":"melted"}]}`,
			domain.FaultTransient,
			0,
			"a ",
		},
		{"malformed", `{"steps":[{"text":"a b c d","malformed":true,"cut_after":3}]}`, domain.FaultTransient, 0, "a b c "},
		{"no finish reason", `{"steps":[{"text":"a b","no_finish":true}]}`, domain.FaultTransient, 0, "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bb := *b
			bb.t = t
			reply, fault := bb.fault(tt.order)
			require.Equal(t, tt.want, fault.Fault, fault.Error())
			require.Equal(t, tt.status, fault.Status)
			require.Equal(t, tt.text, reply.Text)

			if strings.Contains(tt.order, "retry_after") {
				require.Equal(t, 3*time.Second, fault.RetryAfter)
			}

			if strings.Contains(tt.order, "melted") {
				require.Equal(t, "melted", fault.Message)
			}
		})
	}

	t.Run("no [DONE] is no fault", func(t *testing.T) {
		require.Equal(t, "a", b.must(prompt(nil, script(`{"steps":[{"text":"a","no_done":true}]}`))).Text)
	})
}

func TestFailTimes(t *testing.T) {
	b := start(t, mock.Config{})

	for _, order := range []string{
		`{"steps":[{"text":"at last","fail_times":2}]}`,
		`{"steps":[{"text":"at last","fail_times":2,"cut_after":1}]}`,
		`{"steps":[{"text":"at last","fail_times":2,"status":429}]}`,
	} {
		for range 2 { // the count starts afresh after a success
			_, _ = b.fault(order)
			_, _ = b.fault(order)
			require.Equal(t, "at last", b.must(prompt(nil, script(order))).Text)
		}
	}

	t.Run("the clock in a system message does not count", func(t *testing.T) {
		order := script(`{"note":"clock","steps":[{"text":"ok","fail_times":1}]}`)
		_, err := b.stream(prompt(nil, say("system", "12:00"), order))
		require.Error(t, err)
		require.Equal(t, "ok", b.must(prompt(nil, say("system", "12:01"), order)).Text)
	})
}

func TestHoldUntilReleased(t *testing.T) {
	b := start(t, mock.Config{})
	first := make(chan struct{})

	type result struct {
		reply domain.Reply
		err   error
	}

	done := make(chan result, 1)

	go func() {
		var once sync.Once

		reply, err := b.client.Stream(
			t.Context(),
			prompt(nil, script(`{"steps":[{"text":"one two three","hold":true,"hold_after":2}]}`)),
			func(d domain.Delta) error {
				if d.Text == "two " {
					once.Do(func() { close(first) })
				}

				return nil
			},
		)
		done <- result{reply, err}
	}()

	<-first
	require.Eventually(t, func() bool {
		var out map[string]int
		require.Equal(t, 200, b.do("POST", "/control/release", &out))

		return out["released"] == 1
	}, time.Minute, 5*time.Millisecond)

	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, "one two three", got.reply.Text)
}

func TestHoldUntilTheClientLeaves(t *testing.T) {
	b := start(t, mock.Config{KeepRequests: true})
	for _, order := range []string{`{"steps":[{"text":"one two","hold":true}]}`, `{"steps":[{"hold":true}]}`} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := b.client.Stream(ctx, prompt(nil, script(order)), nil)

		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}

	require.Eventually(t, func() bool {
		for _, r := range b.log() {
			if r.Outcome != "client gone" {
				return false
			}
		}

		return true
	}, time.Minute, 5*time.Millisecond)
}

func TestDelays(t *testing.T) {
	b := start(t, mock.Config{})
	began := time.Now()

	b.must(prompt(nil, script(`{"steps":[{"text":"a b c","delay_ms":40,"first_delay_ms":60}]}`)))
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond+3*40*time.Millisecond*2/3)
}

func TestSmallContextOverflows(t *testing.T) {
	b := start(t, mock.Config{})
	p := prompt(nil, say("user", strings.Repeat("long ", 10_000)))
	b.must(p)
	p.Model = mock.SmallModel
	_, err := b.stream(p)

	var fault *domain.ModelError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, domain.FaultContextOverflow, fault.Fault)
}

func TestThinkingCanBeSwitchedOff(t *testing.T) {
	b := start(t, mock.Config{})
	body := `{"model":"everloop-demo","chat_template_kwargs":{"enable_thinking":%t},"messages":[{"role":"user","content":"[[script]]{` +
		`\"steps\":[{\"thinking\":\"hm\",\"text\":\"x\"}]}"}]}`
	_, with := b.post(fmt.Sprintf(body, true))
	_, without := b.post(fmt.Sprintf(body, false))

	require.Contains(t, with, "reasoning_content")
	require.NotContains(t, without, "reasoning_content")
}

func TestManyStreamsAtOnce(t *testing.T) {
	b := start(t, mock.Config{})

	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			reply, err := b.client.Stream(
				t.Context(),
				prompt(nil, script(fmt.Sprintf(`{"steps":[{"text":"stream %d ","tokens":50,"delay_ms":1}]}`, i))),
				nil,
			)
			if err != nil || !strings.HasPrefix(reply.Text, fmt.Sprintf("stream %d word ", i)) {
				t.Errorf("stream %d: %v %.40q", i, err, reply.Text)
			}
		})
	}

	wg.Wait()
}
