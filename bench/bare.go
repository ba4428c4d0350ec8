package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"everloop/bench/target"
)

// bare is the baseline: the least that an agent must do. It calls the model,
// runs what it asks for with `bash -c` and calls again; each message is appended
// to a file and synced before the next step. It has no server, no sandbox, no
// events and no second client.
type bare struct {
	url, dir string
	http     *http.Client
	count    atomic.Int64
}

func newBare(url, dir string) *bare {
	return &bare{url: url, dir: dir, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
}

// bareMessage is a message in the form of chat completions.
type bareMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []bareCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type bareCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// conversation is one session of the baseline.
type conversation struct {
	*bare
	path     string
	messages []bareMessage
}

func (b *bare) conversation() *conversation {
	return &conversation{bare: b, path: filepath.Join(b.dir, "bare-"+strconv.FormatInt(b.count.Add(1), 10)+".jsonl")}
}

// chat runs one message to its end. watch, when not nil, gets each piece of text.
func (c *conversation) chat(ctx context.Context, message string, watch func(text string)) (*target.Chat, error) {
	seen := &target.Chat{Sent: time.Now()}

	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	if err := c.keep(file, bareMessage{Role: "user", Content: message}); err != nil {
		return nil, err
	}

	seen.Kept = time.Now()

	for {
		answer, err := c.ask(ctx, func(text string) {
			if seen.FirstText.IsZero() {
				seen.FirstText = time.Now()
			}

			seen.Text += len(text)
			if watch != nil {
				watch(text)
			}
		})
		if err != nil {
			seen.Ended = time.Now()
			return seen, err
		}

		if err := c.keep(file, answer); err != nil {
			return nil, err
		}

		for _, call := range answer.ToolCalls {
			result, err := c.runTool(ctx, call)
			if err != nil {
				seen.Ended = time.Now()
				return seen, err
			}

			if err := c.keep(file, bareMessage{Role: "tool", ToolCallID: call.ID, Content: result}); err != nil {
				return nil, err
			}
		}

		if len(answer.ToolCalls) == 0 {
			seen.Ended = time.Now()
			return seen, nil
		}
	}
}

// keep makes a message durable.
func (c *conversation) keep(file *os.File, message bareMessage) error {
	c.messages = append(c.messages, message)

	line, err := json.Marshal(message)
	if err != nil {
		return err
	}

	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}

	return syscall.Fdatasync(int(file.Fd()))
}

var bareTools = json.RawMessage(
	`[{"type":"function","function":{"name":"Bash","description":"Runs a ` +
		`command.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]`,
)

// ask makes one model call.
func (c *conversation) ask(ctx context.Context, text func(string)) (bareMessage, error) {
	answer := bareMessage{Role: "assistant"}

	body, err := json.Marshal(map[string]any{"model": "everloop-demo", "stream": true, "messages": c.messages, "tools": bareTools})
	if err != nil {
		return answer, err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}

	req.Header.Set("Content-Type", "application/json")

	response, err := c.http.Do(req)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("model: %s", response.Status)
	}

	var whole strings.Builder

	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 64<<10), 1<<20)

	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found || string(data) == "[DONE]" {
			continue
		}

		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string     `json:"content"`
					ToolCalls []bareCall `json:"tool_calls"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return answer, err
		}

		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" {
				text(choice.Delta.Content)
				whole.WriteString(choice.Delta.Content)
			}

			for _, piece := range choice.Delta.ToolCalls {
				if piece.ID != "" {
					answer.ToolCalls = append(answer.ToolCalls, piece)
				} else if n := len(answer.ToolCalls); n > 0 {
					answer.ToolCalls[n-1].Function.Arguments += piece.Function.Arguments
				}
			}
		}
	}

	answer.Content = whole.String()

	return answer, lines.Err()
}

func (c *conversation) runTool(ctx context.Context, call bareCall) (string, error) {
	var arguments struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal([]byte(call.Function.Arguments), &arguments); err != nil {
		return "", err
	}

	cmd := exec.CommandContext(ctx, "bash", "-c", arguments.Command)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output, err := cmd.CombinedOutput()

	if ctx.Err() != nil {
		return "", ctx.Err()
	}

	if err != nil {
		return fmt.Sprintf("%s\n%v", output, err), nil
	}

	return string(output), nil
}
