package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	requestTimeout = 60 * time.Second
	maxResponse    = 256 << 20 // bytes; long histories are large
)

// Client calls an Everloop service with an API key.
type Client struct {
	base string
	key  string
	http *http.Client
}

// NewClient returns a new client of the service at base, such as http://127.0.0.1:8020.
func NewClient(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, usageError("--url or EVERLOOP_URL must be an address such as http://127.0.0.1:8020")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usageError("--key or EVERLOOP_API_KEY must not contain spaces or special characters")
	}
	u.User = nil
	return &Client{base: strings.TrimRight(u.String(), "/"), key: key, http: &http.Client{}}, nil
}

// Problem is an error response of the service (RFC 9457).
type Problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"`
	RequestID string `json:"request_id"`
}

// Error implements error.
func (p *Problem) Error() string {
	detail := Clean(p.Detail)
	if detail == "" {
		detail = "the service returned " + http.StatusText(p.Status)
	}

	switch {
	case p.Status == http.StatusUnauthorized:
		return "the service does not accept this API key: set another with --key or EVERLOOP_API_KEY"
	case p.Status >= http.StatusInternalServerError && p.RequestID != "":
		return fmt.Sprintf("%s (request %s)", detail, Clean(p.RequestID))
	}

	return detail
}

// Unreachable reports that the service did not respond.
type Unreachable struct {
	Base  string
	Cause error
}

// Error implements error.
func (u *Unreachable) Error() string {
	cause := u.Cause
	for inner := cause; inner != nil; inner = errors.Unwrap(inner) {
		cause = inner // the outer errors repeat the address
	}
	if errors.Is(u.Cause, context.DeadlineExceeded) {
		cause = errors.New("timed out")
	}
	return fmt.Sprintf("no Everloop at %s (%v): is `make run` running? Set another address with --url or EVERLOOP_URL", u.Base, cause)
}

// Unwrap returns the network's error.
func (u *Unreachable) Unwrap() error { return u.Cause }

// transient reports whether the same call can succeed later.
func transient(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Retryable || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
	}
	_, unreachable := errors.AsType[*Unreachable](err)
	return unreachable
}

func (c *Client) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+c.key)

	res, err := c.http.Do(req)
	if err != nil {
		if errors.Is(context.Cause(req.Context()), context.Canceled) {
			return nil, context.Canceled
		}

		return nil, &Unreachable{Base: c.base, Cause: err}
	}

	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()

	problem := &Problem{}

	content, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(content, problem) != nil || problem.Code == "" {
		*problem = Problem{Detail: fmt.Sprintf("%s returned %s, and not in Everloop's format", c.base, res.Status)}
	}

	problem.Status = res.StatusCode

	return nil, problem
}

// call sends a request and decodes its JSON response into out.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}

	if body == nil {
		encoded = nil
	}

	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}

	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	res, err := c.do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()

	if kind := res.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		return &Problem{Status: res.StatusCode, Detail: c.base + " is not an Everloop"}
	}

	content, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return &Unreachable{Base: c.base, Cause: err}
	}

	if err := json.Unmarshal(content, out); err != nil {
		return &Problem{Status: res.StatusCode, Detail: "invalid response of " + c.base}
	}

	return nil
}

func sessionPath(id, rest string) string { return "/api/sessions/" + url.PathEscape(id) + rest }

// CreateSession creates a session; an empty model selects the service's default.
func (c *Client) CreateSession(ctx context.Context, model string) (string, error) {
	body := map[string]string{}
	if model != "" {
		body["model"] = model
	}
	var created struct {
		SessionID string `json:"session_id"`
	}
	err := c.call(ctx, http.MethodPost, "/api/sessions", body, &created)
	return created.SessionID, err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (s Session, err error) {
	err = c.call(ctx, http.MethodGet, sessionPath(id, ""), nil, &s)
	return s, err
}

// LastSession returns the user's session that changed last, without replays. The service lists
// pinned sessions first, so it looks through a whole page.
func (c *Client) LastSession(ctx context.Context) (Session, error) {
	var page struct{ Items []Session }
	if err := c.call(ctx, http.MethodGet, "/api/sessions?limit=100", nil, &page); err != nil {
		return Session{}, err
	}

	sessions := slices.DeleteFunc(page.Items, func(s Session) bool {
		return len(s.ReplayState) > 0 && string(s.ReplayState) != "null"
	})
	if len(sessions) == 0 {
		return Session{}, errNoSession
	}

	return slices.MaxFunc(sessions, func(a, b Session) int { return a.UpdatedAt.Compare(b.UpdatedAt) }), nil
}

// Send sends a message. Messages with the same client_message_id count once.
func (c *Client) Send(ctx context.Context, session string, send Send) (accepted Accepted, err error) {
	err = c.call(ctx, http.MethodPost, sessionPath(session, "/chat"), send, &accepted)
	return accepted, err
}

// Answer resolves an open question.
func (c *Client) Answer(ctx context.Context, session string, answer Answer) (accepted Accepted, err error) {
	body := map[string]any{"message": "", "askuser_answer": answer}
	err = c.call(ctx, http.MethodPost, sessionPath(session, "/chat"), body, &accepted)
	return accepted, err
}

// Stop interrupts the running chat, if any.
func (c *Client) Stop(ctx context.Context, session string) error {
	return c.call(ctx, http.MethodPost, sessionPath(session, "/stop"), map[string]string{}, &struct{}{})
}

// turn contains the fields of a turn that matter here.
type turn struct {
	ChatID    string     `json:"chat_id"`
	ToolCalls []toolCall `json:"tool_calls"`
}

func (c *Client) turns(ctx context.Context, session string) (turns []turn, err error) {
	err = c.call(ctx, http.MethodGet, sessionPath(session, "/messages"), nil, &turns)
	return turns, err
}

// Pending returns the open questions of a session and its sub-agents, oldest first.
func (c *Client) Pending(ctx context.Context, session string) (open []Asked, err error) {
	turns, err := c.turns(ctx, session)
	if err != nil {
		return nil, err
	}

	for _, turn := range turns {
		for _, call := range turn.ToolCalls {
			if call.Status != "awaiting_answer" {
				continue
			}

			asked := Asked{ToolCallID: call.ID}
			if err := json.Unmarshal([]byte(call.Arguments), &asked); err != nil || len(asked.Questions) == 0 {
				return nil, &Problem{Status: http.StatusOK, Detail: "invalid question of the session"}
			}

			open = append(open, asked)
		}
	}

	return open, nil
}

// lastChat returns the chat of the session's newest turn; empty without turns.
func (c *Client) lastChat(ctx context.Context, session string) (string, error) {
	turns, err := c.turns(ctx, session)
	if err != nil || len(turns) == 0 {
		return "", err
	}
	return turns[len(turns)-1].ChatID, nil
}
