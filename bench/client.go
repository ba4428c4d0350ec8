package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// patience is how long a chat may last before the measurement counts as failed.
const patience = 5 * time.Minute

// client speaks the service's REST interface and reads server-sent events.
type client struct {
	base, key string
	http      *http.Client
}

func newClient(base, key string) *client {
	return &client{base: base, key: key, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
}

// event is one event of a session as it came to the client.
type event struct {
	name string
	at   time.Time
	body struct {
		ChatID       string `json:"chat_id"`
		Role         string `json:"role"`
		PatchType    string `json:"patch_type"`
		TextDelta    string `json:"text_delta"`
		DurationMS   int64  `json:"duration_ms"`
		FinishReason string `json:"finish_reason"`
		ToolCall     struct {
			ID string `json:"id"`
		} `json:"tool_call"`
	}
}

func (e *event) patch(kind string) bool { return e.name == "turn:patch" && e.body.PatchType == kind }

// chat is one chat as the client saw it.
type chat struct {
	sent, firstText, ended time.Time
	finish                 string
	text                   int // bytes
	events                 []event
}

func (c *chat) took() time.Duration { return c.ended.Sub(c.sent) }

func (c *client) request(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	var reader io.Reader

	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}

		reader = bytes.NewReader(data)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")

	response, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}

	if response.StatusCode >= 300 {
		defer response.Body.Close()

		text, _ := io.ReadAll(io.LimitReader(response.Body, 2000))

		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}

	return response, nil
}

// call makes a request and decodes its JSON answer into out, unless it is nil.
func (c *client) call(ctx context.Context, method, path string, body, out any) error {
	response, err := c.request(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	data, err := io.ReadAll(response.Body)
	if err != nil || out == nil {
		return err
	}

	return json.Unmarshal(data, out)
}

func (c *client) createSession(ctx context.Context) (string, error) {
	return c.createSessionWith(ctx, map[string]any{})
}

// createPatientSession makes a session whose chats may make the same call over and
// over for so many steps.
func (c *client) createPatientSession(ctx context.Context, steps int) (string, error) {
	return c.createSessionWith(ctx, map[string]any{"session_setup": map[string]any{"max_steps": steps, "stuck_after": 1000}})
}

func (c *client) createSessionWith(ctx context.Context, body map[string]any) (string, error) {
	var out struct {
		SessionID string `json:"session_id"`
	}

	err := c.call(ctx, http.MethodPost, "/api/sessions", body, &out)

	return out.SessionID, err
}

// chat sends a message and follows it to chat:end. watch, when not nil, sees
// each event as it comes.
func (c *client) chat(ctx context.Context, session, message string, watch func(*event)) (*chat, error) {
	return c.follow(ctx, session, map[string]any{"message": message}, watch)
}

func (c *client) follow(ctx context.Context, session string, body map[string]any, watch func(*event)) (*chat, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	seen := &chat{sent: time.Now()}

	response, err := c.request(ctx, http.MethodPost, "/api/sessions/"+session+"/chat", "text/event-stream", body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	err = readEvents(response.Body, func(e *event) bool {
		if watch != nil {
			watch(e)
		}

		return seen.add(e)
	})
	if err == nil && seen.ended.IsZero() {
		err = io.ErrUnexpectedEOF
	}

	return seen, err
}

// add notes an event and reports whether more may follow.
func (c *chat) add(e *event) bool {
	c.events = append(c.events, *e)
	if e.patch("add_content") {
		if c.firstText.IsZero() {
			c.firstText = e.at
		}

		c.text += len(e.body.TextDelta)
	}

	if e.name == "chat:end" {
		c.ended, c.finish = e.at, e.body.FinishReason
		return false
	}

	return true
}

// completed is chat for a chat that must end well.
func (c *client) completed(ctx context.Context, session, message string) (*chat, error) {
	seen, err := c.chat(ctx, session, message, nil)
	if err == nil && seen.finish != "completed" {
		err = fmt.Errorf("the chat in session %s ended as %q", session, seen.finish)
	}

	return seen, err
}

func (c *client) stop(ctx context.Context, session string) error {
	var out struct {
		Stopped bool `json:"stopped"`
	}

	err := c.call(ctx, http.MethodPost, "/api/sessions/"+session+"/stop", nil, &out)
	if err == nil && !out.Stopped {
		err = fmt.Errorf("nothing was stopped in session %s", session)
	}

	return err
}

// readEvents reads server-sent events until more says no or the stream ends.
func readEvents(stream io.Reader, more func(*event) bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 64<<10), 16<<20)

	var name string

	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e := &event{name: name, at: time.Now()}
			if err := json.Unmarshal([]byte(line[len("data: "):]), &e.body); err != nil {
				return fmt.Errorf("event %s: %w", name, err)
			}

			if e.name == "session:resync" || e.name == "session:error" {
				return fmt.Errorf("the stream ended with %s: %s", e.name, line)
			}

			if !more(e) {
				return nil
			}
		}
	}

	return lines.Err()
}
