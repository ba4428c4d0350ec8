package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

const (
	// pingTime is the maximum time until a server must answer a ping after a call timed out.
	pingTime = 5 * time.Second
	maxTime  = time.Hour // maximum timeout of one call
)

var errCallTime = errors.New("the call's time is over")

// timeLimit returns the timeout of one call of the server.
func timeLimit(server domain.MCPServer) time.Duration {
	if server.TimeoutS <= 0 {
		return toolserver.DefaultTimeout * time.Second
	}

	return min(time.Duration(server.TimeoutS)*time.Second, maxTime)
}

// call runs one tool call. Failures of the server become results. The error, if any, reports a
// lost connection and makes the caller retry a read-only call.
func (l *link) call(ctx context.Context, c *tools.Call, tool string, acts bool) (tools.Result, error) {
	l.mu.Lock()
	l.calls++
	l.used = time.Now()
	server := l.target.server

	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.calls--
		l.used = time.Now()
		l.mu.Unlock()
	}()

	switch why, err := l.admitted(ctx); {
	case err != nil:
		return failure("Not carried out: the rules of the network could not be read."), err
	case why != "":
		return failure("Not carried out: the tool server %s is not available: %s.", server.Name, why), nil
	}

	limit := timeLimit(server.MCPServer)

	timed, cancel := context.WithTimeoutCause(ctx, limit, errCallTime)
	defer cancel()

	for fresh := false; ; fresh = true {
		conn, err := l.reach(timed)
		if err == nil {
			var answer *sdk.CallToolResult
			if answer, err = conn.ask(timed, c, tool); err == nil {
				l.fine()

				if answer.NeedsInput() {
					return failure("%s", inputNeeded(tool, server.MCPServer, answer.InputRequests)), nil
				}

				result := resultOf(answer)
				result.Output = redact(result.Output, server.MCPServer, false)

				return result, nil
			}
		}

		switch {
		case ctx.Err() != nil:
			return tools.Result{}, ctx.Err()
		case timed.Err() != nil && conn == nil:
			return failure("The tool server %s was not connected within %s, so nothing was done.", server.Name, limit), nil
		case timed.Err() != nil:
			l.manager.spawn(func() { l.probe(conn) })
			return failure("The call of %s took longer than %s and was cancelled. It may have taken effect in part.", tool, limit), nil
		case conn == nil:
			result := failure("The tool server %s is not available, so nothing was done: %s.", server.Name,
				errorText(err, server.MCPServer))

			return result, again(acts, err)
		}

		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code != codeRejected && !conn.neverSent(err) {
			return failure(
				"The tool server %s refused the call: %s",
				server.Name,
				cleanText(oneLine(redact(refused.Message, server.MCPServer, true)), maxDescription),
			), nil
		}

		why := conn.explain(err)
		if conn.neverSent(err) {
			l.lost(conn, why)

			if !fresh {
				continue // not sent: retry once on a new connection
			}

			result := failure(
				"The tool server %s could not be reached, so nothing was done: %s.",
				server.Name,
				errorText(why, server.MCPServer),
			)

			return result, again(acts, err)
		}
		// If the connection is still open, the error may be the server's way to refuse.
		gone := conn.why() != nil || errors.Is(err, sdk.ErrConnectionClosed)

		result := failure("The call of %s failed and may have taken effect in part: %s.", tool, errorText(why, server.MCPServer))
		if gone {
			l.lost(conn, why)
			result = failure("The tool server %s was lost while the call ran, which may have taken effect in part: %s.",
				server.Name, errorText(why, server.MCPServer))
		}

		return result, again(acts, err)
	}
}

// inputNeeded describes the input requests of a server during a call.
func inputNeeded(tool string, server domain.MCPServer, requests sdk.InputRequestMap) string {
	if len(requests) == 0 {
		return fmt.Sprintf("The tool server %s is busy and did not finish the call of %s. Try again later.", server.Name, tool)
	}

	var wanted []string

	for _, id := range slices.Sorted(maps.Keys(requests)) {
		switch request := requests[id].(type) {
		case *sdk.ElicitParams:
			wanted = append(wanted, strings.TrimSpace("an answer of the user: "+request.Message+" "+request.URL))
		case *sdk.ListRootsParams: //nolint:staticcheck // servers may still send it
			wanted = append(wanted, "a list of directories")
		default:
			wanted = append(wanted, "an answer of a model")
		}
	}

	text := cleanText(oneLine(redact(strings.Join(wanted, "; "), server, true)), maxDescription)

	return fmt.Sprintf("The tool server %s did not finish the call of %s, because it requests input, which is not supported. "+
		"It requests %s. If the tool takes this as an argument, call it again with it; otherwise report it to the user.",
		server.Name, tool, text)
}

// codeRejected is the SDK's error code for messages that its transport could not send.
const codeRejected = -32005

// fine resets the count of consecutive failures.
func (l *link) fine() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.failures = 0
}

// again returns an error that makes the caller retry, if the call is read-only.
func again(acts bool, err error) error {
	if acts {
		return nil
	}

	return err
}

// neverSent reports whether the server cannot have executed the call.
func (c *connection) neverSent(err error) bool {
	if errors.Is(err, sdk.ErrSessionMissing) || c.forgotten(err) || c.signedOut() {
		return true
	}

	dialing, ok := errors.AsType[*net.OpError](err)

	return ok && dialing.Op == "dial"
}

// lostSession matches error messages about an unknown session.
var lostSession = regexp.MustCompile(
	`(?i)\bsession\b.*\b(not found|unknown|invalid|expired|missing|terminated|closed|not exist|no longer)` +
		`|\b(no|unknown|invalid|expired|missing|terminated)\b.*\bsession\b`,
)

// forgotten reports whether the server refused a request because the connection's session is
// unknown: by a JSON-RPC error with an HTTP status, instead of the bare 404 of the protocol.
func (c *connection) forgotten(err error) bool {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || !errors.Is(err, &jsonrpc.Error{Code: codeRejected}) || refused.Code == jsonrpc.CodeMethodNotFound || c.session.ID() == "" {
		return false
	}

	return strings.HasSuffix(err.Error(), http.StatusText(http.StatusNotFound)) || lostSession.MatchString(refused.Message)
}

func failure(format string, args ...any) tools.Result {
	return tools.Result{Output: fmt.Sprintf(format, args...), IsError: true}
}

// reach returns the open connection, or connects.
func (l *link) reach(ctx context.Context) (*connection, error) {
	for tries := 0; ; tries++ {
		l.mu.Lock()
		l.start()
		state, conn, settled, why := l.state, l.conn, l.settled, l.err
		refused, wait := l.refused, time.Until(l.retryAt)
		l.mu.Unlock()

		switch {
		case refused != "":
			return nil, errors.New(refused)
		case state == linkUp:
			return conn, nil
		case state == linkClosed:
			return nil, errors.New("its configuration was changed or removed")
		case state == linkDown && wait > 0:
			return nil, fmt.Errorf("%s (it is tried again in %s)", why, wait.Round(time.Second)+time.Second)
		case state == linkDown && tries > 1:
			return nil, errors.New(why)
		}

		select {
		case <-settled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask sends the call and waits for the answer. It also returns when the server does not read the
// request.
func (c *connection) ask(ctx context.Context, call *tools.Call, tool string) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: call.Arguments}
	if call.Progress != nil {
		params.SetProgressToken(call.ID)
	}
	defer c.listen(call.ID, call.Progress)()

	type answered struct {
		answer *sdk.CallToolResult
		err    error
	}

	result := make(chan answered, 1)

	go func() {
		answer, err := c.session.CallTool(ctx, params)
		result <- answered{answer, err}
	}()

	select {
	case r := <-result:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// probe pings a server and drops the connection when it does not answer.
func (l *link) probe(conn *connection) {
	ctx, cancel := context.WithTimeout(l.manager.life, pingTime)
	defer cancel()

	alive := make(chan error, 1)
	go func() { alive <- conn.session.Ping(ctx, nil) }()

	select {
	case err := <-alive:
		if _, answered := errors.AsType[*jsonrpc.Error](err); err == nil || answered {
			return
		}
	case <-ctx.Done():
	}

	if l.manager.life.Err() == nil {
		l.lost(conn, errors.New("it does not answer any more"))
	}
}
