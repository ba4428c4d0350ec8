package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

func TestConnectionError_hidesAddressAndSecrets(t *testing.T) {
	t.Parallel()

	server := domain.MCPServer{
		URL: "https://tools.internal:8443/mcp?key=s3cret-1", Headers: map[string]string{"Authorization": "Bearer s3cret-2"},
		Env: map[string]string{"ANY": "s3cret-3", "A": "s3cret-33", "SHORT": "abc"},
	}
	for want, err := range map[string]error{
		"it cannot be reached: connection refused": &net.OpError{
			Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8443}, Err: errors.New("connection refused"),
		},
		"it cannot be reached: servers of users may not be on this network or port": fmt.Errorf("calling: %w", &net.OpError{
			Op:  "dial",
			Err: errNotPublic,
		}),
		"the connection failed: reset by peer": &net.OpError{Op: "read", Err: errors.New("reset by peer")},
		"its host cannot be found: no such host": &net.OpError{Op: "dial", Err: &net.DNSError{
			Err:  "no such host",
			Name: "tools.internal", Server: "10.0.0.2:53",
		}},
		"no certificate for its host": errors.New("no certificate for tools.internal"),
		"Post its address: x":         errors.New("Post https://tools.internal:8443/mcp?key=s3cret-1: x"),
		"it said *** *** *** *** abc": errors.New("it said s3cret-3 s3cret-33 s3cret-2 " +
			"Bearer s3cret-2 abc"),
		"it does not answer":   fmt.Errorf("x: %w", context.DeadlineExceeded),
		"the connection ended": io.EOF,
	} {
		require.Equal(t, want, errorText(err, server))
	}
}

// A server that repeats what it was given shows the model no secret.
func TestCall_resultRepeatsSecrets(t *testing.T) {
	t.Parallel()

	repeating := func(text string) *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "repeat", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "repeat", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})

		return server
	}
	w := newEnv(t)
	w.stdio("env", serving(repeating("key s3cret-of-mine in /srv/files")), func(s *toolserver.Record) {
		s.Env = map[string]string{"API_KEY": "s3cret-of-mine", "ROOT": "/srv/files"}
	})

	front := httptest.NewServer(
		sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return repeating(r.Header.Get("Authorization")) }, nil),
	)
	t.Cleanup(front.Close)
	t.Cleanup(w.manager.Close)
	w.add(
		domain.MCPServer{
			Name:      "web",
			Transport: toolserver.HTTP,
			URL:       front.URL,
			Headers:   map[string]string{"Authorization": "Bearer s3cret-of-mine"},
		},
		func(s *toolserver.Record) { s.Trusted = true },
	)

	for name, want := range map[string]string{"mcp__env__repeat": "key *** in /srv/files", "mcp__web__repeat": "***"} {
		result, err := w.call(t.Context(), name, `{}`)
		require.NoError(t, err)
		require.Equal(t, want, result.Output)
	}
	// Nothing that is made of secrets is kept either.
	state := w.store.state("env")
	other := w.store.servers[0]
	other.Env = map[string]string{"API_KEY": "another"}
	require.Equal(t, state.Fingerprint, configHash(other))
	other.UpdatedAt = time.Now()
	require.NotEqual(t, state.Fingerprint, configHash(other))
}
