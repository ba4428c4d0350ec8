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
	"strings"
	"time"
)

const (
	requestTimeout = 60 * time.Second
	maxAnswer      = 256 << 20 // bytes of one answer; long histories are large
)

// Client calls one Everloop with one API key.
type Client struct {
	base string
	key  string
	http *http.Client
}

// NewClient makes a client of the service at base, as http://127.0.0.1:8020.
func NewClient(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, &Fault{
			Code: ExitTrouble, Message: "the address of the service must be as http://127.0.0.1:8020 (--url or EVERLOOP_URL)",
		}
	}

	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &Fault{Code: ExitTrouble, Message: "the API key holds characters that no key has (--key or EVERLOOP_API_KEY)"}
	}

	u.User = nil

	return &Client{base: strings.TrimRight(u.String(), "/"), key: key, http: &http.Client{}}, nil
}

// Problem is an answer of the service that is an error (RFC 9457).
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
		detail = "the service answered " + http.StatusText(p.Status)
	}

	switch {
	case p.Status == http.StatusUnauthorized:
		return "the service does not accept this API key: give another with --key or EVERLOOP_API_KEY"
	case p.Status >= http.StatusInternalServerError && p.RequestID != "":
		return fmt.Sprintf("%s (request %s)", detail, Clean(p.RequestID))
	}

	return detail
}

// Unreachable says that the service could not be spoken to.
type Unreachable struct {
	Base  string
	Cause error
}

// Error implements error.
func (u *Unreachable) Error() string {
	return fmt.Sprintf(
		"there is no Everloop at %s (%s): is `make run` running? Another address is given by --url or EVERLOOP_URL", u.Base,
		networkCause(u.Cause),
	)
}

// Unwrap gives the network's error.
func (u *Unreachable) Unwrap() error { return u.Cause }

// networkCause is the innermost error: the outer ones repeat the address.
func networkCause(err error) string {
	if err == nil {
		return "unknown"
	}

	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}

	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}

		err = inner
	}
}

// passing reports whether the same call may work in a moment.
func passing(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Retryable || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
	}

	_, unreachable := errors.AsType[*Unreachable](err)

	return unreachable
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader

	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}

		reader = bytes.NewReader(encoded)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Authorization", "Bearer "+c.key)

	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	return c.do(req)
}

func (c *Client) do(req *http.Request) (*http.Response, error) {
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
		*problem = Problem{Detail: fmt.Sprintf("%s answered %s, and not as Everloop does", c.base, res.Status)}
	}

	problem.Status = res.StatusCode

	return nil, problem
}

// call makes a request and decodes its JSON answer into out.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	return c.callWithin(ctx, requestTimeout, method, path, body, out)
}

func (c *Client) callWithin(ctx context.Context, limit time.Duration, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	res, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()

	if kind := res.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		return &Problem{Status: res.StatusCode, Detail: c.base + " answers, but is no Everloop"}
	}

	content, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return &Unreachable{Base: c.base, Cause: err}
	}

	if err := json.Unmarshal(content, out); err != nil {
		return &Problem{Status: res.StatusCode, Detail: "the answer of " + c.base + " cannot be read"}
	}

	return nil
}

func sessionPath(id, rest string) string { return "/api/sessions/" + url.PathEscape(id) + rest }

// CreateSession makes a session; an empty model means the service's default.
func (c *Client) CreateSession(ctx context.Context, model string) (string, error) {
	body := map[string]string{}
	if model != "" {
		body["model"] = model
	}

	var made struct {
		SessionID string `json:"session_id"`
	}

	err := c.call(ctx, http.MethodPost, "/api/sessions", body, &made)

	return made.SessionID, err
}

// Session reads one session.
func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	var s Session

	err := c.call(ctx, http.MethodGet, sessionPath(id, ""), nil, &s)

	return s, err
}

// LastSession is the session of this user that changed last; replays do not
// count. The list puts pinned sessions first, so a page of it is looked through.
func (c *Client) LastSession(ctx context.Context) (Session, error) {
	sessions, err := c.Sessions(ctx)
	if err != nil {
		return Session{}, err
	}

	if len(sessions) == 0 {
		return Session{}, &Fault{Code: ExitTrouble, Message: "there is no session to go on with: start one without --continue"}
	}

	return sessions[0], nil
}

// Send sends a message. With the same client_message_id it can be repeated:
// the message then counts once.
func (c *Client) Send(ctx context.Context, session string, send Send) (Accepted, error) {
	var accepted Accepted

	err := c.call(ctx, http.MethodPost, sessionPath(session, "/chat"), send, &accepted)

	return accepted, err
}

// Answer resolves an open question.
func (c *Client) Answer(ctx context.Context, session string, answer Answer) (Accepted, error) {
	var accepted Accepted

	body := map[string]any{"message": "", "askuser_answer": answer}
	err := c.call(ctx, http.MethodPost, sessionPath(session, "/chat"), body, &accepted)

	return accepted, err
}

// Stop interrupts the running chat; false means that none ran.
func (c *Client) Stop(ctx context.Context, session string) (bool, error) {
	var out struct {
		Stopped bool `json:"stopped"`
	}

	err := c.call(ctx, http.MethodPost, sessionPath(session, "/stop"), map[string]string{}, &out)

	return out.Stopped, err
}

// Pending lists the questions that the session waits for, those of sub-agents
// included, in the order they were asked.
func (c *Client) Pending(ctx context.Context, session string) ([]Asked, error) {
	var turns []struct {
		ToolCalls []toolCall `json:"tool_calls"`
	}
	if err := c.call(ctx, http.MethodGet, sessionPath(session, "/messages"), nil, &turns); err != nil {
		return nil, err
	}

	var open []Asked

	for _, turn := range turns {
		for _, call := range turn.ToolCalls {
			if call.Status != "awaiting_answer" {
				continue
			}

			var arguments struct {
				Questions []Question `json:"questions"`
			}
			if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil || len(arguments.Questions) == 0 {
				return nil, &Problem{Status: http.StatusOK, Detail: "the session waits for an answer, but its question cannot be read"}
			}

			open = append(open, Asked{ToolCallID: call.ID, Questions: arguments.Questions})
		}
	}

	return open, nil
}

// lastChat is the chat of the session's newest turn; empty without any.
func (c *Client) lastChat(ctx context.Context, session string) (string, error) {
	var turns []struct {
		ChatID string `json:"chat_id"`
	}

	err := c.call(ctx, http.MethodGet, sessionPath(session, "/messages"), nil, &turns)
	if err != nil || len(turns) == 0 {
		return "", err
	}

	return turns[len(turns)-1].ChatID, nil
}
