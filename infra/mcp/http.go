package mcp

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"everloop/domain"
)

// channel is the HTTP traffic with one server.
type channel struct {
	way     http.RoundTripper
	host    string // of the server's URL: its secrets are sent to no other host
	headers map[string]string
	tools   *taskTools
	budget  budget
	ctx     context.Context // cancels all requests
	end     context.CancelCauseFunc
}

// openHTTP prepares the transport to a server. The channel must be closed.
func openHTTP(way http.RoundTripper, server domain.MCPServer, tools *taskTools) (*sdk.StreamableClientTransport, *channel, error) {
	request, err := http.NewRequest(http.MethodPost, server.URL, nil)
	if err != nil {
		return nil, nil, errors.New("its URL cannot be used")
	}

	c := &channel{way: way, host: request.URL.Scheme + "://" + request.URL.Host, headers: server.Headers, tools: tools}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	client := &http.Client{Transport: c, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > 3 || to.URL.Scheme+"://"+to.URL.Host != c.host {
			return errors.New("it redirects to another host")
		}

		return nil
	}}

	return &sdk.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: maxMessage}, c, nil
}

// why returns the cause of an unexpected end.
func (c *channel) why() error {
	if cause := context.Cause(c.ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}

	return nil
}

// Close cancels all requests.
func (c *channel) Close() error {
	c.end(nil)
	return nil
}

// RoundTrip implements http.RoundTripper: it adds the server's headers and limits the response.
func (c *channel) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := context.Cause(c.ctx); err != nil { // send nothing, not even the session's DELETE
		return nil, err
	}

	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })

	r = r.Clone(ctx)
	if r.URL.Scheme+"://"+r.URL.Host == c.host {
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
	}

	answer, err := c.way.RoundTrip(r)
	if err != nil {
		stop()
		cancel(nil)

		return nil, err
	}

	if r.Method == http.MethodPost && wantsSignIn(answer) {
		c.end(errSignIn)
	}

	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	body := &measured{
		ReadCloser: answer.Body, channel: c, stream: strings.EqualFold(kind, "text/event-stream"),
		release: func() { stop(); cancel(nil) },
	}

	if lists(r) {
		body.messages = &messages{stream: body.stream, tools: c.tools}
	}

	answer.Body = body

	return answer, nil
}

// errSignIn is the cause when the server requires a sign-in.
var errSignIn = errors.New("it requires a sign-in with OAuth, which is not supported: " +
	"set the header Authorization of this tool server to an access token that its provider has issued (Bearer …)")

// wantsSignIn reports whether a response refuses a request and names the metadata of the server's
// sign-in (RFC 9728).
func wantsSignIn(answer *http.Response) bool {
	return answer.StatusCode == http.StatusUnauthorized &&
		strings.Contains(strings.ToLower(strings.Join(answer.Header.Values("WWW-Authenticate"), ", ")), "resource_metadata")
}

// measured is the body of a response.
type measured struct {
	io.ReadCloser
	channel  *channel
	stream   bool
	messages *messages // nil: contains no list of tools
	read     int
	release  func()
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.read += n

	trouble := m.channel.budget.spend(n, 0)
	if trouble == nil && !m.stream && m.read > maxMessage {
		trouble = errTooLarge
	}

	if trouble != nil {
		m.channel.end(trouble)
		return 0, trouble
	}

	if m.messages != nil {
		m.messages.write(p[:n])

		if err != nil {
			m.messages.end()
		}
	}

	return n, err
}

func (m *measured) Close() error {
	defer m.release()
	return m.ReadCloser.Close()
}
