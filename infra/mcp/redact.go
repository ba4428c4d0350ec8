package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"everloop/domain"
)

// hiddenValue replaces a secret or an address.
const hiddenValue = "***"

// minSecret is the minimum length of a secret to redact: shorter values match ordinary text.
const minSecret = 6

// secretName matches the names of variables with secret values.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|credential|cookie|private`)

// errorText returns an error for a model or a user, without the server's secrets and without its
// address, which some users must not see.
func errorText(err error, server domain.MCPServer) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer"
	case errors.Is(err, io.EOF):
		return "the connection ended"
	}

	text := err.Error()
	if trouble, ok := errors.AsType[*net.OpError](err); ok && trouble.Err != nil {
		text = "the connection failed: " + trouble.Err.Error()
		if trouble.Op == "dial" {
			text = "it cannot be reached: " + trouble.Err.Error()
		}
	}

	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		text = "its host cannot be found: " + unknown.Err
	}

	if server.URL != "" {
		text = strings.ReplaceAll(text, server.URL, "its address")
		if at, err := url.Parse(server.URL); err == nil && len(at.Hostname()) > 2 {
			text = strings.NewReplacer(at.Host, "its host", at.Hostname(), "its host").Replace(text)
		}
	}

	return cleanText(oneLine(redact(text, server, true)), maxWords)
}

// redact removes the values of the server's headers and variables from a text. all: every
// variable, for our own texts; otherwise only variables with names of secrets, because a result
// without its directories, for example, is useless.
func redact(text string, server domain.MCPServer, all bool) string {
	var secrets []string

	take := func(value string) {
		if len(value) >= minSecret {
			secrets = append(secrets, value)
		}
	}
	for name, value := range server.Env {
		if all || secretName.MatchString(name) {
			take(value)
		}
	}

	for _, value := range server.Headers {
		take(value)

		if _, credential, found := strings.Cut(value, " "); found { // Bearer …
			take(strings.TrimSpace(credential))
		}
	}
	// Longest first: a secret can be a prefix of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })

	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, hiddenValue)
	}

	return text
}
