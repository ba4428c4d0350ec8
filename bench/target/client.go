package target

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

// Patience is how long a chat may last before the measurement counts as failed.
const Patience = 5 * time.Minute

// Client speaks the service's REST interface and reads server-sent events.
type Client struct {
	Base, Key string
	HTTP      *http.Client
}

// NewClient makes a client with a key.
func NewClient(base, key string) *Client {
	return &Client{Base: base, Key: key, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
}

// Event is one event of a session as it came to the client.
type Event struct {
	Name string
	At   time.Time
	Body struct {
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

// Patch reports whether the event changes a turn in this way.
func (e *Event) Patch(kind string) bool { return e.Name == "turn:patch" && e.Body.PatchType == kind }

// Chat is one chat as the client saw it.
type Chat struct {
	Sent, FirstText, Ended time.Time
	Kept                   time.Time // of the baseline: the message was durable
	Finish                 string
	Text                   int // bytes
	Events                 []Event
}

// Took is the time from the message to the end of the chat.
func (c *Chat) Took() time.Duration { return c.Ended.Sub(c.Sent) }

// Request makes a request; the caller closes the body of the answer.
func (c *Client) Request(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	var reader io.Reader

	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}

		reader = bytes.NewReader(data)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, reader)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")

	response, err := c.HTTP.Do(req)
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

// Call makes a request and decodes its JSON answer into out, unless it is nil.
func (c *Client) Call(ctx context.Context, method, path string, body, out any) error {
	response, err := c.Request(ctx, method, path, "application/json", body)
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

// CreateSession makes a session.
func (c *Client) CreateSession(ctx context.Context) (string, error) {
	return c.createSessionWith(ctx, map[string]any{})
}

// CreatePatientSession makes a session whose chats may make the same call over and
// over for so many steps.
func (c *Client) CreatePatientSession(ctx context.Context, steps int) (string, error) {
	return c.createSessionWith(ctx, map[string]any{"session_setup": map[string]any{"max_steps": steps, "stuck_after": 1000}})
}

func (c *Client) createSessionWith(ctx context.Context, body map[string]any) (string, error) {
	var out struct {
		SessionID string `json:"session_id"`
	}

	err := c.Call(ctx, http.MethodPost, "/api/sessions", body, &out)

	return out.SessionID, err
}

// Chat sends a message and follows it to chat:end. watch, when not nil, sees
// each event as it comes.
func (c *Client) Chat(ctx context.Context, session, message string, watch func(*Event)) (*Chat, error) {
	return c.Follow(ctx, session, map[string]any{"message": message}, watch)
}

// Follow posts a message and follows its chat to chat:end.
func (c *Client) Follow(ctx context.Context, session string, body map[string]any, watch func(*Event)) (*Chat, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()

	seen := &Chat{Sent: time.Now()}

	response, err := c.Request(ctx, http.MethodPost, "/api/sessions/"+session+"/chat", "text/event-stream", body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	err = readEvents(response.Body, func(e *Event) bool {
		if watch != nil {
			watch(e)
		}

		return seen.add(e)
	})
	if err == nil && seen.Ended.IsZero() {
		err = io.ErrUnexpectedEOF
	}

	return seen, err
}

// add notes an event and reports whether more may follow.
func (c *Chat) add(e *Event) bool {
	c.Events = append(c.Events, *e)
	if e.Patch("add_content") {
		if c.FirstText.IsZero() {
			c.FirstText = e.At
		}

		c.Text += len(e.Body.TextDelta)
	}

	if e.Name == "chat:end" {
		c.Ended, c.Finish = e.At, e.Body.FinishReason
		return false
	}

	return true
}

// Completed is chat for a chat that must end well.
func (c *Client) Completed(ctx context.Context, session, message string) (*Chat, error) {
	seen, err := c.Chat(ctx, session, message, nil)
	if err == nil && seen.Finish != "completed" {
		err = fmt.Errorf("the chat in session %s ended as %q", session, seen.Finish)
	}

	return seen, err
}

// Stop stops the chat of a session.
func (c *Client) Stop(ctx context.Context, session string) error {
	var out struct {
		Stopped bool `json:"stopped"`
	}

	err := c.Call(ctx, http.MethodPost, "/api/sessions/"+session+"/stop", nil, &out)
	if err == nil && !out.Stopped {
		err = fmt.Errorf("nothing was stopped in session %s", session)
	}

	return err
}

// readEvents reads server-sent events until more says no or the stream ends.
func readEvents(stream io.Reader, more func(*Event) bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 64<<10), 16<<20)

	var name string

	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e := &Event{Name: name, At: time.Now()}
			if err := json.Unmarshal([]byte(line[len("data: "):]), &e.Body); err != nil {
				return fmt.Errorf("event %s: %w", name, err)
			}

			if e.Name == "session:resync" || e.Name == "session:error" {
				return fmt.Errorf("the stream ended with %s: %s", e.Name, line)
			}

			if !more(e) {
				return nil
			}
		}
	}

	return lines.Err()
}
